#include <arpa/inet.h>

#include "unit/rdma_double_rig.hpp"

namespace tandem::test {
namespace {

using outcome = std::string;

TEST(RdmaDoubleData, ASendLandsInTheNextReceive) {
  rdma_rig rig;
  rig.a.write(0, "hello, world");
  ASSERT_EQ(rig.b.receive(1, {rig.b.part(100, 4), rig.b.part(200, 50)}), 0);
  ASSERT_EQ(rig.b.receive(2, {}), 0);
  ibv_send_wr wr = rdma_end::request(IBV_WR_SEND_WITH_IMM, 5);
  wr.imm_data = htonl(77);
  ASSERT_EQ(rig.a.post(wr, {rig.a.part(0, 7), rig.a.part(7, 5)}), 0);
  EXPECT_EQ(rig.b.words(100, 4) + rig.b.words(200, 8), "hello, world");

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

TEST(RdmaDoubleData, AWriteTakesNoReceiveUnlessItSaysSomething) {
  rdma_rig rig;
  rig.a.write(0, "payload");
  ASSERT_EQ(rig.b.receive(1, {}), 0);
  ibv_send_wr wr = rdma_end::request(IBV_WR_RDMA_WRITE, 1, 0);
  rdma_end::aim(wr, rig.b, 64);
  ASSERT_EQ(rig.a.post(wr, {rig.a.part(0, 7)}), 0);
  EXPECT_EQ(rig.b.words(64, 8), "payload.");
  EXPECT_TRUE(rig.b.poll().empty());
  wr = rdma_end::request(IBV_WR_RDMA_WRITE_WITH_IMM, 2);
  rdma_end::aim(wr, rig.b, 128);
  wr.imm_data = 9;
  ASSERT_EQ(rig.a.post(wr, {rig.a.part(0, 3)}), 0);
  const auto got = rig.b.poll();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(got[0].byte_len, 3u);
  EXPECT_EQ(got[0].imm_data, 9u);
  EXPECT_EQ(rig.b.words(128, 4), "pay.");
  EXPECT_EQ(rig.a.outcomes(), "2 ok");
  EXPECT_EQ(rig.hosts.seen().writes, 2u);
}

TEST(RdmaDoubleData, AReadFetches) {
  rdma_rig rig;
  rig.b.write(10, "there");
  ibv_send_wr wr = rdma_end::request(IBV_WR_RDMA_READ, 3);
  rdma_end::aim(wr, rig.b, 10);
  ASSERT_EQ(rig.a.post(wr, {rig.a.part(0, 5)}), 0);
  EXPECT_EQ(rig.a.words(0, 5), "there");
  const auto got = rig.a.poll();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].opcode, IBV_WC_RDMA_READ);
}

}  // namespace
}  // namespace tandem::test
