#include <gtest/gtest.h>

#include <tandem/channels.hpp>

#include "doubles/fake_verbs.hpp"
#include "support/expected_log.hpp"
#include "transports/rails/verbs/ports.hpp"

namespace tandem::verbs {
namespace {

using fake::library;

class RdmaExplained : public testing::Test {
 protected:
  RdmaExplained() { detail::replace_ibverbs(&library::functions()); }
  ~RdmaExplained() override { detail::replace_ibverbs(nullptr); }

  static rails::rail_choice loopback(rdma_use asked = rdma_use::automatic) {
    settings options;
    options.rdma = asked;
    for (rails::rail_choice& one : rails::explain_rails(options)) {
      if (one.kind == "loopback") return one;
    }
    return {};
  }

  static std::uint32_t loopback_index() {
    for (const rails::nic& one : rails::find_nics()) {
      if (one.kind == rails::nic_kind::loopback) return static_cast<std::uint32_t>(one.index);
    }
    return 0;
  }

  library here_;
};

TEST_F(RdmaExplained, RailShowsItsPort) {
  here_.add("made0");
  here_.gids = {{0, 1, IBV_GID_TYPE_ROCE_V1, loopback_index(), "::ffff:127.0.0.1"},
                {1, 1, IBV_GID_TYPE_ROCE_V2, loopback_index(), "::ffff:127.0.0.1"}};
  const rails::rail_choice lo = loopback();
  EXPECT_EQ(lo.rdma, "made0 port 1, GID 1 (RoCE v2, 127.0.0.1)");
  EXPECT_EQ(lo.rdma_reason, "");
  ASSERT_EQ(lo.rdma_left_out.size(), 1u);
  EXPECT_TRUE(lo.rdma_left_out[0].starts_with("GID 0 (RoCE v1, 127.0.0.1): "));
  EXPECT_EQ(lo.rdma_can, std::vector<std::string>{"messages up to 8 MiB"});
  ASSERT_EQ(lo.rdma_cannot.size(), 4u);
  for (const std::string& one : lo.rdma_cannot) {
    EXPECT_TRUE(one.ends_with(": ibv_alloc_pd: Cannot allocate memory")) << one;
  }
}

TEST_F(RdmaExplained, PortOnOtherInterfaceIsNamed) {
  here_.add("made0");
  here_.gids[0].interface_index = 1'000'000;
  const rails::rail_choice lo = loopback();
  EXPECT_EQ(lo.rdma, "");
  EXPECT_EQ(lo.rdma_reason, "no RDMA device on lo (elsewhere: made0 port 1)");
}

TEST_F(RdmaExplained, NoDevicesIsOneLine) {
  EXPECT_EQ(loopback().rdma_reason, "no RDMA here: no device; rdma link and ibv_devices list them");
  here_.list_failure = ENOSYS;
  EXPECT_TRUE(loopback().rdma_reason.starts_with("no RDMA here: ibv_get_device_list: "));
}

TEST_F(RdmaExplained, UnopenableDevicesAreReasonOrWarning) {
  here_.add("made0");
  here_.add("made1");
  here_.open_failure = {{"made0", EACCES}, {"made1", EACCES}};
  const std::string reason = loopback().rdma_reason;
  EXPECT_TRUE(reason.starts_with("no RDMA here: made0: ibv_open_device: Permission denied; "));
  EXPECT_TRUE(reason.ends_with(" (1 more)"));
  here_.open_failure.erase("made1");
  test::expect_log("made0: ibv_open_device");
  EXPECT_TRUE(loopback().rdma_reason.starts_with("no RDMA device on lo"));
}

TEST_F(RdmaExplained, IsNotProbedWhenDisabled) {
  here_.add("made0");
  EXPECT_EQ(loopback(rdma_use::off).rdma_reason, "no RDMA here: --rdma or TANDEM_RDMA is off");
  EXPECT_EQ(here_.opened, 0);
}

TEST(RdmaHere, ReasonIsGivenWithOrWithoutLibrary) {
  const local_ports found = find_local_ports(rdma_use::automatic);
  EXPECT_EQ(found.all.empty(), found.why_none.starts_with("no RDMA here: ")) << found.why_none;
}

}  // namespace
}  // namespace tandem::verbs
