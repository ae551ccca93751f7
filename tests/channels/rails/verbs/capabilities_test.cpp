#include "transports/rails/verbs/capabilities.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "doubles/rdma/double.hpp"

namespace tandem::verbs {
namespace {

using test::rdma_double;
using call = rdma_double::call;

std::vector<std::string> tried(rdma_double& on, const std::string& device = "one") {
  std::vector<std::string> all;
  for (const capability& one : probe(on.table(), device, 8 << 20)) all.push_back(describe(one));
  return all;
}

const std::vector<std::string> usual_capabilities{
    "messages up to 8 MiB", "immediate data", "inline sending up to 256 bytes",
    "relaxed ordering accepted, though a driver may ignore it",
    "no dma-buf: ibv_reg_dmabuf_mr: Operation not supported: this "
    "device's driver does not support it"};

/// The usual capabilities with one of them replaced.
std::vector<std::string> usual_with(std::size_t which, std::string by) {
  std::vector<std::string> all = usual_capabilities;
  all[which] = std::move(by);
  return all;
}

TEST(Capabilities, AreProbedWithoutLeaks) {
  rdma_double on({{.name = "one"}, {.name = "two", .dmabuf = true}});
  EXPECT_EQ(tried(on), usual_capabilities);
  EXPECT_EQ(tried(on, "two"), usual_with(4, "dma-buf"));
  EXPECT_EQ(on.open(), rdma_double::objects{});
}

TEST(Capabilities, ExplainMissingOnes) {
  rdma_double on({{.name = "one"}});
  on.fail_next(call::reg_mr, EINVAL);
  EXPECT_EQ(tried(on),
            usual_with(3, "no relaxed ordering: ibv_reg_mr_iova2 with the flag: Invalid argument"));
  on.fail_next(call::create_qp, EINVAL);
  EXPECT_EQ(tried(on), usual_with(2,
                                  "no inline sending: ibv_create_qp with 256 inline bytes: Invalid "
                                  "argument"));
  on.fail_next(call::reg_dmabuf_mr, EPROTONOSUPPORT);
  EXPECT_EQ(tried(on), usual_with(4,
                                  "no dma-buf: ibv_reg_dmabuf_mr: Protocol not supported: the "
                                  "kernel must be 5.12 or newer"));
  on.table().reg_dmabuf_mr = nullptr;
  EXPECT_EQ(tried(on), usual_with(4,
                                  "no dma-buf: libibverbs has no ibv_reg_dmabuf_mr: install "
                                  "rdma-core 34 or newer"));
}

TEST(Capabilities, OfUnusableDeviceHaveOneReason) {
  rdma_double on({{.name = "one"}});
  const auto all_end = [&](const std::string& device, const std::string& words) {
    const std::vector<capability> all = probe(on.table(), device, 0);
    ASSERT_EQ(all.size(), 5u);
    EXPECT_EQ(describe(all[0]), "no messages: the port reports a maximum of 0 bytes");
    for (std::size_t i = 1; i < all.size(); ++i) {
      EXPECT_FALSE(all[i].has);
      EXPECT_EQ(all[i].how, words) << all[i].what;
    }
  };
  all_end("nobody", "the device was removed");
  on.fail_next(call::open_device, EACCES);
  all_end("one", "ibv_open_device: Permission denied");
  on.fail_next(call::alloc_pd, ENOMEM);
  all_end("one", "ibv_alloc_pd: Cannot allocate memory");
}

TEST(Capabilities, ChooseRegistrationOfDeviceMemory) {
  rdma_double on({{.name = "old"}, {.name = "new", .dmabuf = true}});
  const auto how = [&on](const std::string& device, bool is_exported) {
    return probe_registration(on.table(), device, memory_kind::cuda, is_exported);
  };
  EXPECT_EQ(how("new", true).how, registration_method::dmabuf);
  EXPECT_EQ(how("new", true).why, "registered cuda memory by its dma-buf");
  EXPECT_EQ(how("new", false).how, registration_method::none);
  EXPECT_NE(how("new", false).why.find("no dma-buf was given"), std::string::npos);
  EXPECT_EQ(how("old", true).how, registration_method::none);
  EXPECT_NE(how("old", true).why.find("the device does not support dma-buf"), std::string::npos);
  EXPECT_EQ(how("nobody", true).why, "the device was removed");
  on.table().reg_dmabuf_mr = nullptr;
  EXPECT_NE(how("new", true).why.find("rdma-core 34"), std::string::npos);
  EXPECT_EQ(on.open(), rdma_double::objects{});
}

}  // namespace
}  // namespace tandem::verbs
