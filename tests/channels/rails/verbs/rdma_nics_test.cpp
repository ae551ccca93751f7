#include "transports/rails/verbs/rdma_nics.hpp"

#include <gtest/gtest.h>

#include <tandem/error.hpp>

#include "doubles/fake_ports.hpp"
#include "support/text.hpp"

namespace tandem::verbs {
namespace {

using fake::gid;
using fake::infiniband;
using fake::nic;
using fake::roce;
using test::contains_text;

rails::rail_end end_of(const std::vector<rails::nic>& nics, std::size_t index) {
  return {index, nics[index].addresses};
}

TEST(RdmaNics, EachRailHasThePortOnItsInterface) {
  const std::vector<rails::nic> nics{nic("eth0", 3, {"10.9.0.1"}), nic("eth1", 4, {"10.9.1.1"}),
                                     nic("eth2", 5, {"10.9.2.1"})};
  const std::vector<port> ports{
      roce("rxe1", {gid(0, "fe80::2", 4), gid(1, "10.9.1.1", 4)}),
      roce("rxe0", {gid(0, "fe80::1", 3), gid(1, "10.9.0.1", 3)}),
  };
  const auto all = choose_rdma(ports, nics, {end_of(nics, 0), end_of(nics, 1), end_of(nics, 2)});
  ASSERT_EQ(all.size(), 3u);
  ASSERT_TRUE(all[0].end && all[1].end);
  EXPECT_EQ(all[0].why, "rxe0 port 1, GID 1 (RoCE v2, 10.9.0.1)");
  EXPECT_EQ(all[0].end->why, all[0].why);
  EXPECT_EQ(all[1].end->device, "rxe1");
  EXPECT_EQ(all[1].end->gid_index, 1);
  EXPECT_EQ(all[1].end->gid, fake::raw("10.9.1.1"));
  EXPECT_EQ(all[1].end->mtu_bytes, 4096);
  EXPECT_EQ(all[1].end->max_message_bytes, 8u << 20);
  EXPECT_TRUE(all[1].end->ethernet);
  EXPECT_FALSE(all[2].end);
  EXPECT_EQ(all[2].why, "no RDMA device on eth2 (elsewhere: rxe1 port 1, rxe0 port 1)");
}

TEST(RdmaNics, PreferUsableThenFasterThenFirstDevice) {
  const rails::nic eth0 = nic("eth0", 3, {"10.9.0.1"});
  port a = roce("b", {gid(1, "10.9.0.1", 3)}), b = roce("a", {gid(1, "10.9.0.1", 3)});
  const auto device = [&] { return choose_rdma({a, b}, eth0, eth0.addresses).end->device; };
  EXPECT_EQ(device(), "a");
  a.speed_mbit = 200'000;
  EXPECT_EQ(device(), "b");
  b.speed_mbit = -1;
  a.active = false;
  EXPECT_EQ(device(), "a");
  a.active = true;
  a.gids = {gid(0, "fe80::1", 3)};
  EXPECT_EQ(device(), "a");
  const rdma_choice found = choose_rdma({a, b}, eth0, eth0.addresses);
  ASSERT_EQ(found.left_out.size(), 1u);
  EXPECT_TRUE(contains_text(found.left_out[0], "b port 1 has no GID"));
  a.gids = b.gids;
  EXPECT_EQ(choose_rdma({a, b}, eth0, eth0.addresses).left_out.at(0),
            "a port 1: b port 1 is on eth0 too");
}

TEST(RdmaNics, ExplainUnusablePorts) {
  const rails::nic eth0 = nic("eth0", 3, {"10.9.0.1", "fe80::1"});
  port one = roce("rxe0", {gid(0, "fe80::1", 3)});
  EXPECT_TRUE(
      contains_text(choose_rdma({one}, eth0, {}).why, "GID 0 (RoCE v2, fe80::1): link-local"));
  one.active = false;
  EXPECT_TRUE(contains_text(choose_rdma({one}, eth0, {}).why, "rxe0 port 1 is not active"));
  EXPECT_EQ(choose_rdma({}, eth0, {}).why, "no RDMA device on eth0");
}

TEST(RdmaNics, RequireGidOfRailAddress) {
  const rails::nic eth0 = nic("eth0", 3, {"10.9.0.1", "10.9.0.2", "fd00::1"});
  const port one =
      roce("rxe0", {gid(1, "10.9.0.1", 3), gid(2, "10.9.0.2", 3), gid(3, "fd00::1", 3)});
  EXPECT_EQ(choose_rdma({one}, eth0, {}).end->gid_index, 1);
  EXPECT_EQ(choose_rdma({one}, eth0, {eth0.addresses[1]}).end->gid_index, 2);
  EXPECT_EQ(choose_rdma({one}, eth0, {eth0.addresses[2]}).end->gid_index, 3);
}

TEST(RdmaNics, InfinibandIsMatchedByHardwareAddress) {
  rails::nic ib0 = nic("ib0", 6, {"10.8.0.1"});
  ib0.kind = rails::nic_kind::infiniband_ip;
  ib0.mac = "00:00:10:8d:fe:80:00:00:00:00:00:00:02:c9:03:ab:cd:ef:00:01";
  const std::vector<port> ports{infiniband("mlx5_0", {"fe80::2c9:3ab:cdef:2"}),
                                infiniband("mlx5_1", {"fe80::2c9:3ab:cdef:1"})};
  const rdma_choice found = choose_rdma(ports, ib0, ib0.addresses);
  ASSERT_TRUE(found.end);
  EXPECT_EQ(found.end->device, "mlx5_1");
  EXPECT_EQ(found.end->lid, 7);
  EXPECT_FALSE(found.end->ethernet);
  ib0.mac = "02:c9:03:ab:cd:ef";
  EXPECT_FALSE(choose_rdma(ports, ib0, ib0.addresses).end);
}

TEST(RdmaNics, AreMandatoryWhenRequired) {
  const std::vector<rails::nic> nics{nic("eth0", 3, {"10.9.0.1"})};
  const std::vector<rails::rail_end> rails{end_of(nics, 0)};
  const auto none = choose_rdma({}, nics, rails);
  for (const rdma_use asked : {rdma_use::automatic, rdma_use::off, rdma_use::both}) {
    EXPECT_NO_THROW(require_rdma(asked, nics, rails, none));
  }
  try {
    require_rdma(rdma_use::on, nics, rails, none);
    FAIL() << "no error";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::bad_option);
    EXPECT_TRUE(contains_text(e.what(), "no RDMA on rail eth0: no RDMA device on eth0"));
  }
  const auto some = choose_rdma({roce("rxe0", {gid(1, "10.9.0.1", 3)})}, nics, rails);
  EXPECT_NO_THROW(require_rdma(rdma_use::on, nics, rails, some));
}

}  // namespace
}  // namespace tandem::verbs
