#include "transports/rails/verbs/gid_choice.hpp"

#include <gtest/gtest.h>

#include "doubles/fake_ports.hpp"
#include "support/text.hpp"

namespace tandem::verbs {
namespace {

using fake::at;
using fake::gid;
using fake::infiniband;
using fake::roce;
using test::contains_text;

constexpr int eth0 = 3;

gid_requirement on_eth0(const std::vector<std::string>& addresses) {
  gid_requirement requirement{"eth0", eth0, {}};
  for (const std::string& one : addresses) requirement.addresses.push_back(at(one));
  return requirement;
}

/// GID table of a NIC: each address as v1 and v2, the link-local one first.
port usual() {
  return roce("mlx5_0", {gid(0, "fe80::1", eth0, gid_kind::roce_v1), gid(1, "fe80::1", eth0),
                         gid(2, "10.9.0.1", eth0, gid_kind::roce_v1), gid(3, "10.9.0.1", eth0),
                         gid(5, "fd00::1", eth0)});
}

TEST(RoceGid, IsIpv4GidOfTheInterface) {
  const gid_choice found = choose_gid(usual(), on_eth0({"10.9.0.1", "fd00::1"}));
  ASSERT_TRUE(found.chosen);
  EXPECT_EQ(found.chosen->index, 3);
  EXPECT_EQ(found.why, "GID 3 (RoCE v2, 10.9.0.1)");
  ASSERT_EQ(found.left_out.size(), 4u);
  EXPECT_EQ(found.left_out[0], "GID 0 (RoCE v1, fe80::1): RoCE v1 is not routed; only v2 is used");
  EXPECT_EQ(found.left_out[1], "GID 1 (RoCE v2, fe80::1): link-local");
  EXPECT_EQ(found.left_out[3], "GID 5 (RoCE v2, fd00::1): after GID 3");
}

TEST(RoceGid, IsIpv4BeforeIpv6WhateverTheOrder) {
  const port one = roce("rxe0", {gid(0, "fd00::1", eth0), gid(1, "10.9.0.1", eth0)});
  EXPECT_EQ(choose_gid(one, on_eth0({"fd00::1", "10.9.0.1"})).chosen->index, 1);
  EXPECT_EQ(choose_gid(one).chosen->index, 1);
}

TEST(RoceGid, IsIpv6WhereRailHasNoIpv4) {
  const gid_choice found = choose_gid(usual(), on_eth0({"fd00::1"}));
  ASSERT_TRUE(found.chosen);
  EXPECT_EQ(found.why, "GID 5 (RoCE v2, fd00::1)");
  EXPECT_EQ(found.left_out[3],
            "GID 3 (RoCE v2, 10.9.0.1): not an address that the rail uses (fd00::1)");
}

TEST(RoceGid, FollowsTheOrderOfTheRailsAddresses) {
  const port one = roce("rxe0", {gid(1, "10.9.0.1", eth0), gid(2, "10.9.0.2", eth0)});
  EXPECT_EQ(choose_gid(one, on_eth0({"10.9.0.2", "10.9.0.1"})).chosen->index, 2);
  EXPECT_EQ(choose_gid(one, on_eth0({})).chosen->index, 1);
}

TEST(RoceGid, ExcludesOtherInterfaces) {
  const port one = roce("mlx5_0", {gid(1, "10.9.0.1", 4), gid(2, "10.9.0.1", 0)});
  const gid_choice found = choose_gid(one, on_eth0({"10.9.0.1"}));
  EXPECT_FALSE(found.chosen);
  EXPECT_EQ(found.left_out[0], "GID 1 (RoCE v2, 10.9.0.1): of interface 4, not eth0 (3)");
  EXPECT_TRUE(contains_text(found.left_out[1], "of no interface here"));
  EXPECT_TRUE(
      contains_text(found.why, "mlx5_0 port 1 has no GID that is RoCE v2 of eth0 with 10.9.0.1: "));
  EXPECT_TRUE(contains_text(found.why, found.left_out[0]));
  EXPECT_TRUE(contains_text(found.why, "ip address add"));
}

TEST(RoceGid, IsNeverLinkLocalUnspecifiedOrZero) {
  const port one =
      roce("rxe0", {gid(0, "fe80::1", eth0), gid(1, "169.254.7.7", eth0), gid(2, "0.0.0.0", eth0),
                    gid(3, "::", eth0), gid(4, "ff02::1", eth0)});
  const gid_choice found = choose_gid(one);
  EXPECT_FALSE(found.chosen);
  ASSERT_EQ(found.left_out.size(), 5u);
  EXPECT_TRUE(contains_text(found.left_out[0], "fe80::1): link-local"));
  EXPECT_TRUE(contains_text(found.left_out[1], "169.254.7.7): link-local"));
  EXPECT_TRUE(contains_text(found.left_out[2], ": unspecified"));
  EXPECT_TRUE(contains_text(found.left_out[3], ": empty"));
  EXPECT_TRUE(contains_text(found.left_out[4], ": multicast"));
}

TEST(RoceGid, IsNeverRoceV1) {
  const port one = roce("old", {gid(0, "10.9.0.1", eth0, gid_kind::roce_v1)});
  const gid_choice found = choose_gid(one, on_eth0({"10.9.0.1"}));
  EXPECT_FALSE(found.chosen);
  EXPECT_TRUE(contains_text(found.why, "RoCE v1"));
}

TEST(RoceGid, ReportsEmptyTable) {
  EXPECT_TRUE(contains_text(choose_gid(roce("rxe0", {})).why, "its table is empty"));
}

TEST(RoceGid, LimitsReasons) {
  std::vector<gid_entry> many;
  for (int i = 0; i < 1000; ++i) many.push_back(gid(i, "fe80::1", eth0));
  const gid_choice found = choose_gid(roce("rxe0", many));
  ASSERT_EQ(found.left_out.size(), max_gids_left_out + 1);
  EXPECT_EQ(found.left_out.back(), "992 more");
  EXPECT_LT(found.why.size(), 1000u);
}

TEST(InfinibandGid, IsFirstValid) {
  const gid_choice found =
      choose_gid(infiniband("mlx5_0", {"fe80::2c9:3ab:cdef:1", "fe80::2c9:3ab:cdef:2"}));
  ASSERT_TRUE(found.chosen);
  EXPECT_EQ(found.why, "GID 0 (InfiniBand, fe80::2c9:3ab:cdef:1), subnet fe80::/64, LID 7");
  EXPECT_TRUE(contains_text(found.left_out.at(0), "after the first"));
  EXPECT_EQ(choose_gid(infiniband("mlx5_0", {"::", "fe80::1"})).chosen->index, 1);
}

TEST(InfinibandGid, RequiresSubnetManager) {
  const gid_choice found = choose_gid(infiniband("mlx5_0", {"::"}));
  EXPECT_FALSE(found.chosen);
  EXPECT_TRUE(
      contains_text(found.why, "mlx5_0 port 1 has no GID: a subnet manager must set it up"));
}

TEST(Gid, OfInactivePortIsNotUsed) {
  port one = usual();
  one.active = false;
  const gid_choice found = choose_gid(one, on_eth0({"10.9.0.1"}));
  EXPECT_FALSE(found.chosen);
  EXPECT_TRUE(contains_text(found.why, "mlx5_0 port 1 is not active: "));
  EXPECT_TRUE(contains_text(found.why, "ip link set eth0 up"));
  one = infiniband("mlx5_1", {"fe80::1"});
  one.active = false;
  EXPECT_TRUE(contains_text(choose_gid(one).why, "opensm"));
}

}  // namespace
}  // namespace tandem::verbs
