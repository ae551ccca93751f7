#include <arpa/inet.h>

#include <utility>

#include "doubles/rdma/rig.hpp"

namespace tandem::test {
namespace {

TEST(RdmaDoubleData, SendConsumesNextReceive) {
  rdma_rig rig;
  rig.a.write(0, "hello, world");
  ASSERT_EQ(rig.b.receive(1, {rig.b.part(100, 4), rig.b.part(200, 50)}), 0);
  ASSERT_EQ(rig.b.receive(2, {}), 0);
  ibv_send_wr wr = rdma_end::request(IBV_WR_SEND_WITH_IMM, 5);
  wr.imm_data = htonl(77);
  ASSERT_EQ(rig.a.post(wr, {rig.a.part(0, 7), rig.a.part(7, 5)}), 0);
  EXPECT_EQ(rig.b.text_at(100, 4) + rig.b.text_at(200, 8), "hello, world");

  const auto sent = rig.a.poll();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].wr_id, 5u);
  EXPECT_EQ(sent[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(sent[0].opcode, IBV_WC_SEND);
  EXPECT_EQ(sent[0].qp_num, rig.a.qp->qp_num);
  const auto got = rig.b.poll();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].wr_id, 1u);
  EXPECT_EQ(got[0].opcode, IBV_WC_RECV);
  EXPECT_EQ(got[0].byte_len, 12u);
  EXPECT_EQ(got[0].wc_flags, unsigned{IBV_WC_WITH_IMM});
  EXPECT_EQ(ntohl(got[0].imm_data), 77u);
  EXPECT_EQ(rig.hosts.seen().sends, 1u);
  EXPECT_EQ(rig.hosts.seen().bytes, 12u);
}

TEST(RdmaDoubleData, OnlyWriteWithImmediateConsumesReceive) {
  rdma_rig rig;
  rig.a.write(0, "payload");
  ASSERT_EQ(rig.b.receive(1, {}), 0);
  ibv_send_wr wr = rdma_end::request(IBV_WR_RDMA_WRITE, 1, 0);
  rdma_end::set_target(wr, rig.b, 64);
  ASSERT_EQ(rig.a.post(wr, {rig.a.part(0, 7)}), 0);
  EXPECT_EQ(rig.b.text_at(64, 8), "payload.");
  EXPECT_TRUE(rig.b.poll().empty());
  wr = rdma_end::request(IBV_WR_RDMA_WRITE_WITH_IMM, 2);
  rdma_end::set_target(wr, rig.b, 128);
  wr.imm_data = 9;
  ASSERT_EQ(rig.a.post(wr, {rig.a.part(0, 3)}), 0);
  const auto got = rig.b.poll();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(got[0].byte_len, 3u);
  EXPECT_EQ(got[0].imm_data, 9u);
  EXPECT_EQ(rig.b.text_at(128, 4), "pay.");
  EXPECT_EQ(rig.a.outcomes(), "2 ok");
  EXPECT_EQ(rig.hosts.seen().writes, 2u);
}

TEST(RdmaDoubleData, ReadFetchesRemoteBytes) {
  rdma_rig rig;
  rig.b.write(10, "there");
  ibv_send_wr wr = rdma_end::request(IBV_WR_RDMA_READ, 3);
  rdma_end::set_target(wr, rig.b, 10);
  ASSERT_EQ(rig.a.post(wr, {rig.a.part(0, 5)}), 0);
  EXPECT_EQ(rig.a.text_at(0, 5), "there");
  const auto got = rig.a.poll();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].opcode, IBV_WC_RDMA_READ);
}

TEST(RdmaDoubleData, InlinePayloadIsCopiedWhenPosted) {
  rdma_rig rig;
  rig.hosts.deliver(rdma_double::delivery::by_pump);
  ASSERT_EQ(rig.b.receive(1, {rig.b.part(0, 10)}), 0);
  {
    std::string gone = "short-lived words";
    const ibv_sge part{reinterpret_cast<std::uintptr_t>(gone.data()), 5, 0};
    ASSERT_EQ(
        rig.a.post(rdma_end::request(IBV_WR_SEND, 1, IBV_SEND_INLINE | IBV_SEND_SIGNALED), {part}),
        0);
  }
  rig.hosts.pump_all();
  EXPECT_EQ(rig.a.outcomes(), "1 ok");
  EXPECT_EQ(rig.b.text_at(0, 6), "short.");
  const auto inlined = rdma_end::request(IBV_WR_SEND, 2, IBV_SEND_INLINE);
  EXPECT_EQ(rig.a.post(inlined, {rig.a.part(0, 60), rig.a.part(0, 5)}), EINVAL);
  EXPECT_EQ(rig.a.post(inlined, {rig.a.part(0, 60), rig.a.part(0, 4)}), 0);
}

TEST(RdmaDoubleData, RequestsKeepTheirOrder) {
  rdma_rig rig;
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(rig.b.receive(i, {rig.b.part(8 * i, 8)}), 0);
  ibv_send_wr list[4]{}, *bad = nullptr;
  ibv_sge parts[4];
  for (std::uint64_t i = 0; i < 4; ++i) {
    rig.a.write(i, std::to_string(i));
    parts[i] = rig.a.part(i, 1);
    list[i] = rdma_end::request(IBV_WR_SEND, i);
    list[i].sg_list = parts + i;
    list[i].num_sge = 1;
    list[i].next = i < 3 ? list + i + 1 : nullptr;
  }
  ASSERT_EQ(ibv_post_send(rig.a.qp, list, &bad), 0);
  EXPECT_EQ(rig.a.outcomes(), "0 ok, 1 ok, 2 ok, 3 ok");
  EXPECT_EQ(rig.b.outcomes(), "0 ok, 1 ok, 2 ok, 3 ok");
  EXPECT_EQ(rig.b.text_at(0, 25), "0.......1.......2.......3");
}

TEST(RdmaDoubleData, EmptyMessagesAreDelivered) {
  rdma_rig rig;
  ASSERT_EQ(rig.b.receive(1, {}), 0);
  ibv_send_wr wr = rdma_end::request(IBV_WR_RDMA_WRITE_WITH_IMM, 1);
  ASSERT_EQ(rig.a.post(wr, {}), 0) << "keys are not checked";
  const auto got = rig.b.poll();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].byte_len, 0u);
}

TEST(RdmaDoubleData, SendRequiresRegisteredMemory) {
  const auto sent = [](auto change) {
    rdma_rig rig;
    EXPECT_EQ(rig.b.receive(1, {rig.b.part(0, 100)}), 0);
    ibv_sge part = rig.a.part(0, 10);
    change(part, rig.a);
    EXPECT_EQ(rig.a.post(rdma_end::request(IBV_WR_SEND, 1, 0), {part}), 0);
    EXPECT_EQ(rig.a.state(), IBV_QPS_ERR);
    return rig.a.outcomes() + "; " + rig.b.outcomes();
  };
  const std::string refused = "1 not registered; ";
  EXPECT_EQ(sent([](ibv_sge& part, auto&) { part.lkey = 4711; }), refused);
  EXPECT_EQ(sent([](ibv_sge& part, auto& a) { part.lkey = a.mr->rkey; }), refused);
  EXPECT_EQ(sent([](ibv_sge& part, auto&) { part.addr += 4090; }), refused);
  EXPECT_EQ(sent([](ibv_sge& part, auto&) { part.addr -= 1; }), refused);
  EXPECT_EQ(
      sent([](ibv_sge&, auto& a) { EXPECT_EQ(verbs().dereg_mr(std::exchange(a.mr, nullptr)), 0); }),
      refused);
}

/// AddressSanitizer detects a NIC that reads freed memory.
TEST(RdmaDoubleData, DetectsMemoryFreedUnderRequest) {
#ifndef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "only AddressSanitizer sees it";
#endif
  rdma_rig rig;
  rig.hosts.deliver(rdma_double::delivery::by_pump);
  ibv_send_wr wr = rdma_end::request(IBV_WR_RDMA_WRITE, 1);
  rdma_end::set_target(wr, rig.b, 0);
  ASSERT_EQ(rig.a.post(wr, {rig.a.part(0, 10)}), 0);
  const auto move = [&] {
    rig.a.memory = std::vector<char>();
    rig.hosts.pump();
  };
  EXPECT_DEATH(move(), "heap-use-after-free");
}

TEST(RdmaDoubleData, RegionsOfAnotherDomainAreRefused) {
  rdma_rig rig;
  ibv_pd* const other = verbs().alloc_pd(rig.b.context);
  ibv_mr* const region = verbs().reg_mr(other, rig.b.memory.data(), 100, rig.b.wanted.access);
  ibv_send_wr wr = rdma_end::request(IBV_WR_RDMA_WRITE, 1);
  rdma_end::set_target(wr, rig.b, 0);
  wr.wr.rdma.rkey = region->rkey;
  ASSERT_EQ(rig.a.post(wr, {rig.a.part(0, 1)}), 0);
  EXPECT_EQ(rig.a.outcomes(), "1 refused");
  EXPECT_EQ(verbs().dereg_mr(region), 0);
  EXPECT_EQ(verbs().dealloc_pd(other), 0);
}

TEST(RdmaDoubleData, WriteRequiresKeyRangeAndAccess) {
  const auto written = [](const rdma_end::options& there, auto change) {
    rdma_rig rig({}, there);
    EXPECT_EQ(rig.b.receive(9, {}), 0);
    ibv_send_wr wr = rdma_end::request(IBV_WR_RDMA_WRITE, 1);
    rdma_end::set_target(wr, rig.b, 0);
    change(wr, rig.b);
    EXPECT_EQ(rig.a.post(wr, {rig.a.part(0, 10)}), 0);
    EXPECT_EQ(rig.a.state(), IBV_QPS_ERR);
    EXPECT_EQ(rig.b.state(), IBV_QPS_ERR);
    EXPECT_EQ(rig.b.text_at(0, 1), ".");
    EXPECT_EQ(rig.b.async_events(), std::vector{IBV_EVENT_QP_ACCESS_ERR});
    return rig.a.outcomes() + "; " + rig.b.outcomes();
  };
  const std::string refused = "1 refused; 9 flushed";
  const auto unchanged = [](ibv_send_wr&, auto&) {};
  EXPECT_EQ(written({}, [](auto& wr, auto&) { wr.wr.rdma.rkey += 1; }), refused);
  EXPECT_EQ(written({}, [](auto& wr, auto& b) { wr.wr.rdma.rkey = b.mr->lkey; }), refused);
  EXPECT_EQ(written({}, [](auto& wr, auto&) { wr.wr.rdma.remote_addr += 4087; }), refused);
  EXPECT_EQ(written({.access = IBV_ACCESS_LOCAL_WRITE}, unchanged), refused);
  EXPECT_EQ(written({},
                    [](auto&, auto& b) {
                      ibv_qp_attr to{};
                      to.qp_access_flags = IBV_ACCESS_LOCAL_WRITE;
                      EXPECT_EQ(b.modify(to, IBV_QP_ACCESS_FLAGS), 0);
                    }),
            refused);
}

TEST(RdmaDoubleData, ReadRequiresAccess) {
  rdma_rig rig({}, {.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE});
  ibv_send_wr wr = rdma_end::request(IBV_WR_RDMA_READ, 1);
  rdma_end::set_target(wr, rig.b, 0);
  ASSERT_EQ(rig.a.post(wr, {rig.a.part(0, 10)}), 0);
  EXPECT_EQ(rig.a.outcomes(), "1 refused");
}

TEST(RdmaDoubleData, MessageLongerThanReceiveFails) {
  rdma_rig rig;
  ASSERT_EQ(rig.b.receive(1, {rig.b.part(0, 4), rig.b.part(8, 5)}), 0);
  ASSERT_EQ(rig.b.receive(2, {}), 0);
  ASSERT_EQ(rig.a.post(rdma_end::request(IBV_WR_SEND, 3), {rig.a.part(0, 10)}), 0);
  EXPECT_EQ(rig.a.outcomes(), "3 invalid there");
  EXPECT_EQ(rig.b.outcomes(), "1 too long, 2 flushed");
}

TEST(RdmaDoubleData, ReceiveRequiresLocalWriteAccess) {
  rdma_rig rig({}, {.access = 0});
  ASSERT_EQ(rig.b.receive(1, {rig.b.part(0, 10)}), 0);
  ASSERT_EQ(rig.a.post(rdma_end::request(IBV_WR_SEND, 3), {rig.a.part(0, 10)}), 0);
  EXPECT_EQ(rig.a.outcomes(), "3 failed there");
  EXPECT_EQ(rig.b.outcomes(), "1 not registered");
}

TEST(RdmaDoubleData, MessageLongerThanDeviceLimitFails) {
  rdma_double hosts({{.name = "one", .max_msg = 100}, {.name = "two"}});
  rdma_end a("one"), b("two");
  connect(a, b);
  ibv_send_wr wr = rdma_end::request(IBV_WR_RDMA_WRITE, 1);
  rdma_end::set_target(wr, b, 0);
  ASSERT_EQ(a.post(wr, {a.part(0, 100)}), 0);
  ASSERT_EQ(a.post(wr, {a.part(0, 101)}), 0);
  EXPECT_EQ(a.outcomes(), "1 ok, 1 too long");
}

TEST(RdmaDoubleData, SenderWaitsForReceive) {
  rdma_rig rig;
  for (std::uint64_t id : {1, 2}) {
    ASSERT_EQ(rig.a.post(rdma_end::request(IBV_WR_SEND, id), {rig.a.part(0, 1)}), 0);
  }
  EXPECT_EQ(rig.a.outcomes(), "");
  EXPECT_EQ(rig.hosts.seen().rnr, 1u);
  ASSERT_EQ(rig.b.receive(1, {rig.b.part(0, 10)}), 0);
  EXPECT_EQ(rig.a.outcomes(), "1 ok");
  EXPECT_EQ(rig.hosts.seen().rnr, 2u);
  ASSERT_EQ(rig.b.receive(2, {rig.b.part(0, 10)}), 0);
  EXPECT_EQ(rig.a.outcomes(), "2 ok");
}

TEST(RdmaDoubleData, SenderFailsAfterRnrRetries) {
  rdma_rig rig(rdma_end::options{.rnr_retry = 6});
  ibv_send_wr wr = rdma_end::request(IBV_WR_RDMA_WRITE_WITH_IMM, 1);
  ASSERT_EQ(rig.a.post(wr, {}), 0);
  EXPECT_EQ(rig.a.outcomes(), "1 not ready");
  EXPECT_EQ(rig.hosts.seen().rnr, 1u);
}

TEST(RdmaDoubleData, FailedCompletionHasOnlyIdAndStatus) {
  rdma_rig rig;
  ASSERT_EQ(rig.b.receive(8, {}), 0);
  ASSERT_EQ(rig.a.break_qp(), 0);
  ASSERT_EQ(rig.b.break_qp(), 0);
  ASSERT_EQ(rig.a.post(rdma_end::request(IBV_WR_SEND, 3), {}), 0);
  const auto of_send = rig.a.poll(), of_receive = rig.b.poll();
  ASSERT_EQ(of_send.size(), 1u);
  ASSERT_EQ(of_receive.size(), 1u);
  EXPECT_EQ(of_send[0].wr_id, 3u);
  EXPECT_EQ(of_send[0].qp_num, rig.a.qp->qp_num);
  EXPECT_NE(of_send[0].vendor_err, 0u);
  EXPECT_EQ(of_send[0].opcode, IBV_WC_RECV) << "a wrong value, for every reader";
  EXPECT_EQ(of_receive[0].opcode, IBV_WC_SEND) << "a wrong value, for every reader";
  EXPECT_NE(of_receive[0].byte_len, 0u);
}

}  // namespace
}  // namespace tandem::test
