#include "transports/rails/verbs/ports.hpp"

#include <gtest/gtest.h>

#include "doubles/fake_verbs.hpp"

namespace tandem::verbs {
namespace {

using fake::library;
using testing::Test;

class Ports : public Test {
 protected:
  std::vector<port> find() { return find_ports(library::functions(), &problems_); }
  bool has_problem(std::string_view words) const {
    for (const std::string& one : problems_) {
      if (one.find(words) != std::string::npos) return true;
    }
    return false;
  }

  library here_;
  std::vector<std::string> problems_;
};

TEST_F(Ports, AreReadWithTheirGids) {
  here_.add("made0");
  here_.gids = {{1, 1, IBV_GID_TYPE_ROCE_V2, 3}, {0, 1, IBV_GID_TYPE_ROCE_V1, 3}};
  const std::vector<port> all = find();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(problems_.empty());
  const port& one = all[0];
  EXPECT_EQ(one.device, "made0");
  EXPECT_EQ(one.number, 1);
  EXPECT_TRUE(one.active);
  EXPECT_TRUE(one.ethernet);
  EXPECT_EQ(one.mtu_bytes, 1024);
  EXPECT_EQ(one.max_message_bytes, 8u << 20);
  EXPECT_EQ(one.speed_mbit, 100'000);
  EXPECT_EQ(one.numa_node, -1);
  EXPECT_EQ(one.limits.max_qp_wr, 16'384);
  EXPECT_EQ(one.limits.max_mr_size, 1ull << 40);
  ASSERT_EQ(one.gids.size(), 2u);
  EXPECT_EQ(one.gids[0].index, 0);
  EXPECT_EQ(one.gids[0].kind, gid_kind::roce_v1);
  EXPECT_EQ(one.gids[1].kind, gid_kind::roce_v2);
  EXPECT_EQ(one.gids[1].interface_index, 3);
  EXPECT_EQ(one.gids[1].raw[15], std::byte{1});
}

TEST_F(Ports, UnopenableDeviceIsReported) {
  here_.add("made0");
  here_.add("made1");
  here_.open_failure["made0"] = EACCES;
  const std::vector<port> all = find();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].device, "made1");
  ASSERT_EQ(problems_.size(), 1u);
  EXPECT_EQ(problems_[0],
            "made0: ibv_open_device: Permission denied; let this user read and write "
            "/dev/infiniband/uverbs0");
  EXPECT_EQ(find_ports(library::functions(), nullptr).size(), 1u);
}

TEST_F(Ports, MissingDeviceFileSuggestsContainerOptions) {
  here_.add("made0");
  here_.open_failure["made0"] = ENOENT;
  EXPECT_TRUE(find().empty());
  EXPECT_TRUE(has_problem("--device=/dev/infiniband/uverbs0"));
}

TEST_F(Ports, UnreadablePortsAreReported) {
  here_.add("made0");
  here_.query_device_failure = EIO;
  EXPECT_TRUE(find().empty());
  EXPECT_TRUE(has_problem("made0: ibv_query_device: Input/output error"));
  here_.query_device_failure = 0;
  here_.query_port_failure = EINVAL;
  EXPECT_TRUE(find().empty());
  EXPECT_TRUE(has_problem("made0: ibv_query_port 1: Invalid argument"));
  here_.query_port_failure = 0;
  here_.gid_table_failure = EOPNOTSUPP;
  EXPECT_TRUE(find().empty());
  EXPECT_TRUE(has_problem("made0: ibv_query_gid_table: Operation not supported"));
}

TEST_F(Ports, OtherTransportsAreExcluded) {
  here_.add("iw0").transport_type = IBV_TRANSPORT_IWARP;
  EXPECT_TRUE(find().empty());
  EXPECT_TRUE(has_problem("iw0: neither InfiniBand nor RoCE but iWARP"));
}

TEST_F(Ports, MissingKernelSupportSuggestsModule) {
  here_.list_failure = ENOSYS;
  EXPECT_TRUE(find().empty());
  EXPECT_TRUE(has_problem("modprobe ib_uverbs"));
}

TEST_F(Ports, HostileCountsAreLimited) {
  here_.add("made0");
  here_.gid_table_length = -5;
  EXPECT_EQ(find().size(), 1u);
  here_.gid_table_length = 2'000'000'000;
  EXPECT_EQ(find().size(), 1u);
}

TEST(LaneSpeed, IsSpeedTimesWidth) {
  EXPECT_EQ(lane_speed_mbit(32, 2), 100'000);
  EXPECT_EQ(lane_speed_mbit(64, 2), 200'000);
  EXPECT_EQ(lane_speed_mbit(128, 2), 400'000);
  EXPECT_EQ(lane_speed_mbit(4, 2), 40'000);
  EXPECT_EQ(lane_speed_mbit(1, 1), 2'500);
  EXPECT_EQ(lane_speed_mbit(0, 2), -1);
  EXPECT_EQ(lane_speed_mbit(32, 3), -1);
}

}  // namespace
}  // namespace tandem::verbs
