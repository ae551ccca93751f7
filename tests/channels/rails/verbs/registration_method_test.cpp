// How an RDMA device accesses each kind of memory, and the errors if it cannot.

#include "transports/rails/verbs/registration_method.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "support/temporary_folder.hpp"

namespace tandem::verbs {
namespace {

TEST(registration_method, takes_host_memory_by_its_address) {
  const registration_choice found = choose_registration_method({});
  EXPECT_EQ(found.how, registration_method::plain);
  EXPECT_EQ(found.why, "registered host memory");
}

TEST(registration_method, prefers_a_descriptor_to_a_module) {
  const registration_choice found =
      choose_registration_method({memory_kind::cuda, true, true, EBADF, "nvidia_peermem"});
  EXPECT_EQ(found.how, registration_method::dmabuf);
  EXPECT_EQ(found.why, "registered cuda memory by its dma-buf");
}

TEST(registration_method, falls_back_to_a_module_and_says_why) {
  const registration_choice found =
      choose_registration_method({memory_kind::hip, true, true, EOPNOTSUPP, "amdgpu (amdkfd)"});
  EXPECT_EQ(found.how, registration_method::peer_module);
  EXPECT_EQ(found.why,
            "registered hip memory through amdgpu (amdkfd); the device does not support "
            "dma-buf (Operation not supported)");
}

TEST(registration_method, explains_what_is_missing) {
  const auto why = [](const registration_facts& of) {
    const registration_choice found = choose_registration_method(of);
    EXPECT_EQ(found.how, registration_method::none);
    return found.why;
  };
  EXPECT_EQ(why({memory_kind::cuda, false, true, EBADF, {}}),
            "no RDMA to cuda memory: no dma-buf was given, and no peer memory module is loaded "
            "(nvidia_peermem)");
  EXPECT_NE(why({memory_kind::cuda, true, false, 0, {}}).find("rdma-core 34"), std::string::npos);
  EXPECT_NE(why({memory_kind::hip, true, true, EPROTONOSUPPORT, {}}).find("amdgpu"),
            std::string::npos);
}

TEST(registration_method, finds_module_of_memory_kind) {
  const test::temporary_folder root;
  const std::string at = root.path("");
  EXPECT_EQ(find_peer_module(memory_kind::cuda, at), "");
  std::filesystem::create_directories(at + "/sys/module/nvidia_peermem");
  std::ofstream(at + "/sys/module/nvidia_peermem/version") << "550";
  EXPECT_EQ(find_peer_module(memory_kind::cuda, at), "nvidia_peermem");
  EXPECT_EQ(find_peer_module(memory_kind::hip, at), "");
  EXPECT_EQ(find_peer_module(memory_kind::host, at), "");
}

}  // namespace
}  // namespace tandem::verbs
