#include <gtest/gtest-spi.h>
#include <sys/mman.h>

#include <functional>

#include "doubles/rdma/rig.hpp"

namespace tandem::test {
namespace {

int to_state(const rdma_end& of, ibv_qp_state next) {
  ibv_qp_attr to{};
  to.qp_state = next;
  return of.modify(to, IBV_QP_STATE);
}

TEST(RdmaDoubleDevices, AreListedDuringItsLifetime) {
  {
    rdma_double hosts({{.name = "one"}, {.name = "two"}});
    int count = 0;
    ibv_device** const list = verbs().get_device_list(&count);
    ASSERT_EQ(count, 2);
    EXPECT_STREQ(verbs().get_device_name(list[1]), "two");
    EXPECT_EQ(list[2], nullptr);
    EXPECT_EQ(hosts.open().device_lists, 1u);
    verbs().free_device_list(list);
  }
  std::string why;
  const detail::ibverbs* const own = detail::find_ibverbs(why);
  EXPECT_EQ(own == nullptr, !why.empty()) << "the machine's own, or none";
}

TEST(RdmaDoubleDevices, ReportTheirAttributes) {
  rdma_double hosts({{.name = "roce", .mtu = IBV_MTU_2048, .max_msg = 1 << 20, .max_qp_wr = 99},
                     {.name = "ib", .infiniband = true, .up = false}});
  ibv_context* const roce = open_named("roce");
  ibv_context* const ib = open_named("ib");
  EXPECT_EQ(roce->abi_compat, nullptr) << "so that the header takes it for an old one";
  ibv_device_attr is{};
  ASSERT_EQ(verbs().query_device(roce, &is), 0);
  EXPECT_EQ(is.max_qp_wr, 99);
  EXPECT_EQ(is.phys_port_cnt, 1);
  EXPECT_NE(is.node_guid, 0u);
  ibv_port_attr port{};
  ASSERT_EQ(verbs().query_port(roce, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.active_mtu, IBV_MTU_2048);
  EXPECT_EQ(port.max_msg_sz, 1u << 20);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.lid, 0);
  ASSERT_EQ(verbs().query_port(ib, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_INFINIBAND);
  EXPECT_NE(port.lid, 0);
  EXPECT_EQ(verbs().query_port(ib, 2, &port), EINVAL);
  EXPECT_EQ(verbs().close_device(roce), 0);
  EXPECT_EQ(verbs().close_device(ib), 0);
}

TEST(RdmaDoubleDevices, HaveGids) {
  rdma_double hosts({{.name = "one",
                      .gids = {rdma_double::roce("10.1.2.3", 4, IBV_GID_TYPE_ROCE_V1),
                               {.type = IBV_GID_TYPE_ROCE_V2, .interface_index = 5, .index = 9}}}});
  ibv_context* const one = open_named("one");
  ibv_gid_entry got[2]{};
  EXPECT_EQ(verbs().query_gid_table(one, got, 1, 0, sizeof *got), -EINVAL) << "too few";
  ASSERT_EQ(verbs().query_gid_table(one, got, 2, 0, sizeof *got), 2);
  EXPECT_EQ(got[0].gid.raw[11], 0xff);
  EXPECT_EQ(got[0].gid.raw[15], 3);
  EXPECT_EQ(got[0].gid_index, 0u);
  EXPECT_EQ(got[0].gid_type, std::uint32_t{IBV_GID_TYPE_ROCE_V1});
  EXPECT_EQ(got[0].ndev_ifindex, 4u);
  EXPECT_EQ(got[1].gid_index, 9u);
  EXPECT_EQ(verbs().close_device(one), 0);
}

TEST(RdmaDoubleMemory, IsRegisteredWithinLimits) {
  rdma_double hosts({{.name = "one", .max_registered = 5000}});
  rdma_end a("one");
  char more[1000];
  EXPECT_EQ(verbs().reg_mr(a.pd, more, 905, 0), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(verbs().reg_mr(a.pd, more, 10, IBV_ACCESS_REMOTE_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL) << "remote write access requires local write access";
  ibv_mr* const region = verbs().reg_mr(a.pd, more, 904, 0);
  ASSERT_NE(region, nullptr);
  EXPECT_NE(region->lkey, region->rkey);
  EXPECT_EQ(hosts.open().registered_bytes, 5000u);
  EXPECT_EQ(hosts.seen().registrations, 2u);
  EXPECT_EQ(verbs().dereg_mr(region), 0);
}

TEST(RdmaDoubleMemory, DmaBufsAreRegisteredWhereSupported) {
  rdma_double hosts({{.name = "one", .dmabuf = true}, {.name = "two"}});
  rdma_end a("one"), b("two");
  connect(a, b);
  const int memory = ::memfd_create("memory", 0);
  ASSERT_EQ(::ftruncate(memory, 12288), 0);
  ASSERT_EQ(::pwrite(memory, "device", 6, 5000), 6);
  EXPECT_EQ(verbs().reg_dmabuf_mr(b.pd, 0, 100, 0, memory, 0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_mr* const region = verbs().reg_dmabuf_mr(a.pd, 5000, 5000, 0x1000, memory, 0);
  ASSERT_NE(region, nullptr);
  ibv_send_wr wr = rdma_end::request(IBV_WR_RDMA_WRITE, 1);
  rdma_end::set_target(wr, b, 0);
  ASSERT_EQ(a.post(wr, {ibv_sge{0x1000, 6, region->lkey}}), 0);
  EXPECT_EQ(b.text_at(0, 7), "device.");
  EXPECT_EQ(verbs().dereg_mr(region), 0);
  ::close(memory);
}

TEST(RdmaDoublePairs, AreReliableAndWithinTheLimits) {
  rdma_double hosts({{.name = "one", .max_inline = 64, .max_qp_wr = 8, .max_cqe = 64}});
  rdma_end a("one");
  const auto refused = [&](auto change) {
    ibv_qp_init_attr as = a.plan();
    change(as);
    EXPECT_EQ(verbs().create_qp(a.pd, &as), nullptr);
    return errno;
  };
  EXPECT_EQ(refused([](auto& as) { as.qp_type = IBV_QPT_UD; }), EOPNOTSUPP);
  EXPECT_EQ(refused([](auto& as) { as.send_cq = nullptr; }), EINVAL);
  EXPECT_EQ(refused([](auto& as) { as.cap.max_send_wr = 9; }), EINVAL);
  EXPECT_EQ(refused([](auto& as) { as.cap.max_recv_wr = 9; }), EINVAL);
  EXPECT_EQ(refused([](auto& as) { as.cap.max_send_sge = 33; }), EINVAL);
  EXPECT_EQ(refused([](auto& as) { as.cap.max_inline_data = 65; }), EINVAL);
  EXPECT_EQ(verbs().create_cq(a.context, 65, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(RdmaDoublePairs, ChangeStatesInOrder) {
  rdma_double hosts({{.name = "one"}, {.name = "two"}});
  rdma_end a("one"), b("two");
  EXPECT_EQ(a.modify(a.to_rtr(b), rdma_end::rtr_mask), EINVAL);
  EXPECT_EQ(a.modify(a.to_init(), rdma_end::init_mask), 0);
  EXPECT_EQ(a.modify(a.to_rts(), rdma_end::rts_mask), EINVAL);
  EXPECT_EQ(a.modify(a.to_rtr(b), rdma_end::rtr_mask), 0);
  EXPECT_EQ(a.modify(a.to_rtr(b), rdma_end::rtr_mask), EINVAL);
  EXPECT_EQ(a.modify(a.to_rts(), rdma_end::rts_mask), 0);
  EXPECT_EQ(a.state(), IBV_QPS_RTS);
  EXPECT_EQ(a.qp->state, IBV_QPS_RTS);
  EXPECT_EQ(to_state(a, IBV_QPS_INIT), EINVAL);
  EXPECT_EQ(to_state(a, IBV_QPS_ERR), 0);
  EXPECT_EQ(a.modify(a.to_rts(), rdma_end::rts_mask), EINVAL);
  EXPECT_EQ(to_state(a, IBV_QPS_RESET), 0);
  EXPECT_EQ(a.modify(a.to_init(), rdma_end::init_mask), 0);
}

TEST(RdmaDoublePairs, RequireExactAttributeMask) {
  rdma_double hosts({{.name = "one"}, {.name = "two"}});
  rdma_end a("one"), b("two");
  const auto expect_each_required = [&](const ibv_qp_attr& to, int mask) {
    for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
      if ((mask & bit) == 0 || bit == IBV_QP_STATE) continue;
      EXPECT_EQ(a.modify(to, mask & ~bit), EINVAL) << bit;
    }
    EXPECT_EQ(a.modify(to, mask | IBV_QP_QKEY), EINVAL);
    EXPECT_EQ(a.modify(to, mask), 0);
  };
  expect_each_required(a.to_init(), rdma_end::init_mask);
  expect_each_required(a.to_rtr(b), rdma_end::rtr_mask);
  expect_each_required(a.to_rts(), rdma_end::rts_mask);
}

TEST(RdmaDoublePairs, RequireValidAttributes) {
  rdma_double hosts({{.name = "one"}, {.name = "two"}});
  rdma_end a("one"), b("two");
  ASSERT_EQ(a.modify(a.to_init(), rdma_end::init_mask), 0);
  const auto refused = [&](auto change) {
    ibv_qp_attr to = a.to_rtr(b);
    change(to);
    return a.modify(to, rdma_end::rtr_mask) == EINVAL;
  };
  EXPECT_TRUE(refused([](auto& to) { to.ah_attr.is_global = 0; })) << "RoCE has nothing else";
  EXPECT_TRUE(refused([](auto& to) { to.ah_attr.grh.sgid_index = 2; }));
  EXPECT_TRUE(refused([](auto& to) { to.ah_attr.port_num = 2; }));
  EXPECT_TRUE(refused([](auto& to) { to.path_mtu = IBV_MTU_2048; }));
  EXPECT_TRUE(refused([](auto& to) { to.rq_psn = 1u << 24; }));
  EXPECT_TRUE(refused([](auto& to) { to.min_rnr_timer = 32; }));
  ASSERT_EQ(a.modify(a.to_rtr(b), rdma_end::rtr_mask), 0);
  ibv_qp_attr to = a.to_rts();
  to.retry_cnt = 8;
  EXPECT_EQ(a.modify(to, rdma_end::rts_mask), EINVAL);
}

TEST(RdmaDoublePairs, PostInAllowedStatesOnly) {
  rdma_double hosts({{.name = "one"}, {.name = "two"}});
  rdma_end a("one"), b("two");
  const auto posts = [&] {
    return std::pair{a.post(rdma_end::request(IBV_WR_SEND, 1), {}), a.receive(1, {})};
  };
  EXPECT_EQ(posts(), std::pair(EINVAL, EINVAL));
  ASSERT_EQ(a.modify(a.to_init(), rdma_end::init_mask), 0);
  EXPECT_EQ(posts(), std::pair(EINVAL, 0));
  ASSERT_EQ(a.modify(a.to_rtr(b), rdma_end::rtr_mask), 0);
  EXPECT_EQ(posts(), std::pair(EINVAL, 0));
  ASSERT_EQ(a.modify(a.to_rts(), rdma_end::rts_mask), 0);
  EXPECT_EQ(posts(), std::pair(0, 0));
  EXPECT_EQ(a.post(rdma_end::request(IBV_WR_ATOMIC_FETCH_AND_ADD, 1), {}), EOPNOTSUPP);
  EXPECT_EQ(a.post(rdma_end::request(IBV_WR_SEND, 1), std::vector(5, a.part(0, 1))), EINVAL);
}

TEST(RdmaDoublePairs, RetryUntilPeerIsReady) {
  rdma_double hosts({{.name = "one"}, {.name = "two"}});
  rdma_end a("one"), b("two");
  ASSERT_EQ(a.modify(a.to_init(), rdma_end::init_mask), 0);
  ASSERT_EQ(a.modify(a.to_rtr(b), rdma_end::rtr_mask), 0);
  ASSERT_EQ(a.modify(a.to_rts(), rdma_end::rts_mask), 0);
  ASSERT_EQ(a.post(rdma_end::request(IBV_WR_SEND, 1), {}), 0);
  ASSERT_EQ(b.modify(b.to_init(), rdma_end::init_mask), 0);
  ASSERT_EQ(b.receive(2, {}), 0);
  EXPECT_EQ(a.outcomes(), "");
  EXPECT_EQ(hosts.pump_all(), 0u);
  ASSERT_EQ(b.modify(b.to_rtr(a), rdma_end::rtr_mask), 0);
  EXPECT_EQ(a.outcomes(), "1 ok");
  EXPECT_EQ(b.outcomes(), "2 ok");
  EXPECT_EQ(b.async_events(), std::vector{IBV_EVENT_COMM_EST}) << "before it could send";
}

/// Result of a message between devices one and two with different attributes at the receiver.
std::string sent_to(const std::function<void(ibv_qp_attr&)>& change_receiver, int receiver_mask,
                    const rdma_end::options& as = {}) {
  rdma_end a("one", as), b("two", as);
  for (rdma_end* const one : {&a, &b}) {
    EXPECT_EQ(one->modify(one->to_init(), rdma_end::init_mask), 0);
  }
  EXPECT_EQ(a.modify(a.to_rtr(b), rdma_end::rtr_mask), 0);
  ibv_qp_attr to = b.to_rtr(a);
  change_receiver(to);
  EXPECT_EQ(b.modify(to, receiver_mask), 0);
  EXPECT_EQ(a.modify(a.to_rts(), rdma_end::rts_mask), 0);
  EXPECT_EQ(b.receive(1, {b.part(0, 1000)}), 0);
  EXPECT_EQ(a.post(rdma_end::request(IBV_WR_SEND, 1), {a.part(0, 1000)}), 0);
  return a.outcomes();
}

TEST(RdmaDoublePairs, ReceiveFromConnectedPeerOnly) {
  rdma_double hosts({{.name = "one"}, {.name = "two"}});
  constexpr int mask = rdma_end::rtr_mask;
  EXPECT_EQ(sent_to([](auto&) {}, mask), "1 ok");
  EXPECT_EQ(sent_to([](auto& to) { ++to.dest_qp_num; }, mask), "1 unanswered");
  EXPECT_EQ(sent_to([](auto& to) { ++to.rq_psn; }, mask), "1 unanswered");
  EXPECT_EQ(sent_to([](auto& to) { to.ah_attr.grh.dgid = {}; }, mask), "1 unanswered");
  EXPECT_EQ(sent_to([](auto& to) { to.path_mtu = IBV_MTU_512; }, mask), "1 invalid there");
}

TEST(RdmaDoublePairs, UseLidOnInfiniband) {
  rdma_double hosts({{.name = "one", .infiniband = true}, {.name = "two", .infiniband = true}});
  const rdma_end::options as{.gid_index = 0};
  constexpr int mask = rdma_end::rtr_mask;
  EXPECT_EQ(sent_to([](auto&) {}, mask, as), "1 ok");
  EXPECT_EQ(sent_to([](auto& to) { to.ah_attr.dlid += 7; }, mask, as), "1 unanswered");
}

TEST(RdmaDoublePairs, RequireSameRoceVersion) {
  const auto gids = [](const char* address) {
    return std::vector{rdma_double::roce(address, 1, IBV_GID_TYPE_ROCE_V1),
                       rdma_double::roce(address, 1, IBV_GID_TYPE_ROCE_V2)};
  };
  rdma_double hosts(
      {{.name = "one", .gids = gids("10.0.0.1")}, {.name = "two", .gids = {gids("10.0.0.2")[0]}}});
  rdma_end a("one", {.gid_index = 1}), b("two", {.gid_index = 0});
  connect(a, b);
  ASSERT_EQ(a.post(rdma_end::request(IBV_WR_RDMA_WRITE, 1), {}), 0);
  EXPECT_EQ(a.outcomes(), "1 unanswered");
}

TEST(RdmaDoublePairs, ConnectToThemselves) {
  rdma_double hosts({{.name = "one"}});
  rdma_end a("one");
  ASSERT_EQ(a.modify(a.to_init(), rdma_end::init_mask), 0);
  ASSERT_EQ(a.modify(a.to_rtr(a), rdma_end::rtr_mask), 0);
  ASSERT_EQ(a.modify(a.to_rts(), rdma_end::rts_mask), 0);
  ASSERT_EQ(a.receive(1, {a.part(10, 5)}), 0);
  a.write(0, "self");
  ASSERT_EQ(a.post(rdma_end::request(IBV_WR_SEND, 2), {a.part(0, 4)}), 0);
  EXPECT_EQ(a.outcomes(), "1 ok, 2 ok");
  EXPECT_EQ(a.text_at(10, 5), "self.");
}

TEST(RdmaDoublePairs, DetectDestroyedPeer) {
  rdma_rig rig;
  ASSERT_EQ(rig.b.break_qp(), 0);
  ASSERT_EQ(rig.a.post(rdma_end::request(IBV_WR_RDMA_WRITE, 1), {}), 0);
  EXPECT_EQ(rig.a.outcomes(), "1 unanswered");
}

TEST(RdmaDouble, ReportsLeaks) {
  ibv_context* left = nullptr;
  const auto leave = [&] {
    rdma_double hosts({{.name = "one"}});
    left = open_named("one");
  };
  EXPECT_NONFATAL_FAILURE(leave(), "left open: 1 contexts");
}

TEST(RdmaDouble, ReportsDoubleDestruction) {
  rdma_double hosts({{.name = "one"}});
  ibv_context* const one = open_named("one");
  ibv_pd* const pd = verbs().alloc_pd(one);
  EXPECT_EQ(verbs().dealloc_pd(pd), 0);
  EXPECT_NONFATAL_FAILURE(verbs().dealloc_pd(pd), "dealloc_pd: it was destroyed, or never made");
  EXPECT_EQ(verbs().close_device(one), 0);
}

}  // namespace
}  // namespace tandem::test
