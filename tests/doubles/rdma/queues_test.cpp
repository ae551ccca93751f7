#include <gtest/gtest-spi.h>
#include <poll.h>

#include <thread>

#include "doubles/rdma/rig.hpp"

namespace tandem::test {
namespace {

bool is_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) == 1;
}

int send(rdma_rig& rig, std::uint64_t id, unsigned flags = IBV_SEND_SIGNALED) {
  return rig.a.post(rdma_end::request(IBV_WR_SEND, id, flags), {});
}

TEST(RdmaDoubleQueues, SlotsAreFreedByLaterCompletion) {
  rdma_rig rig(rdma_end::options{.send_wr = 3});
  ibv_send_wr wr = rdma_end::request(IBV_WR_RDMA_WRITE, 1, 0);
  rdma_end::set_target(wr, rig.b, 0);
  ASSERT_EQ(rig.a.post(wr, {}), 0);
  ASSERT_EQ(rig.a.post(wr, {}), 0);
  wr.send_flags = IBV_SEND_SIGNALED;
  ASSERT_EQ(rig.a.post(wr, {}), 0);
  EXPECT_EQ(rig.a.post(wr, {}), ENOMEM) << "all are complete but not polled";
  EXPECT_EQ(rig.a.outcomes(), "1 ok");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(rig.a.post(wr, {}), 0);
  EXPECT_EQ(rig.a.post(wr, {}), ENOMEM);
}

TEST(RdmaDoubleQueues, PostedListStopsAtFailure) {
  rdma_rig rig(rdma_end::options{.send_wr = 2});
  ibv_send_wr list[3], *bad = nullptr;
  for (int i = 0; i < 3; ++i) {
    list[i] = rdma_end::request(IBV_WR_RDMA_WRITE, static_cast<std::uint64_t>(i));
    list[i].next = i < 2 ? list + i + 1 : nullptr;
  }
  EXPECT_EQ(ibv_post_send(rig.a.qp, list, &bad), ENOMEM);
  EXPECT_EQ(bad, list + 2);
  EXPECT_EQ(rig.a.outcomes(), "0 ok, 1 ok");
}

TEST(RdmaDoubleQueues, ReceivesHoldSlotUntilPolled) {
  rdma_rig rig(rdma_end::options{.receive_wr = 2});
  EXPECT_EQ(rig.b.receive(1, {}), 0);
  EXPECT_EQ(rig.b.receive(2, {}), 0);
  EXPECT_EQ(rig.b.receive(3, {}), ENOMEM);
  ASSERT_EQ(send(rig, 1), 0);
  EXPECT_EQ(rig.b.receive(3, {}), ENOMEM);
  EXPECT_EQ(rig.b.outcomes(), "1 ok");
  EXPECT_EQ(rig.b.receive(3, {}), 0);
}

TEST(RdmaDoubleQueues, SigAllSignalsEveryRequest) {
  rdma_rig rig(rdma_end::options{.sig_all = 1});
  ASSERT_EQ(rig.b.receive(1, {}), 0);
  ASSERT_EQ(send(rig, 7, 0), 0);
  EXPECT_EQ(rig.a.outcomes(), "7 ok");
}

TEST(RdmaDoubleQueues, BrokenPairFlushesAllRequests) {
  rdma_rig rig;
  for (std::uint64_t id : {1, 2}) ASSERT_EQ(send(rig, id, 0), 0) << "they wait for a receive";
  ASSERT_EQ(rig.a.receive(3, {}), 0);
  ASSERT_EQ(rig.a.break_qp(), 0);
  ASSERT_EQ(send(rig, 4, 0), 0);
  ASSERT_EQ(rig.a.receive(5, {}), 0);
  EXPECT_EQ(rig.a.outcomes(), "1 flushed, 2 flushed, 3 flushed, 4 flushed, 5 flushed");
}

TEST(RdmaDoubleQueues, ResetDiscardsRequests) {
  rdma_rig rig;
  ASSERT_EQ(send(rig, 1), 0);
  ibv_qp_attr to{};
  ASSERT_EQ(rig.a.modify(to, IBV_QP_STATE), 0);
  EXPECT_EQ(rig.a.state(), IBV_QPS_RESET);
  EXPECT_EQ(rig.a.outcomes(), "");
}

TEST(RdmaDoubleQueues, OverrunningACompletionQueueBreaksIt) {
  rdma_rig rig(rdma_end::options{.cqe = 1});
  ibv_send_wr wr = rdma_end::request(IBV_WR_RDMA_WRITE, 1);
  ASSERT_EQ(rig.a.post(wr, {}), 0);
  ASSERT_EQ(rig.a.post(wr, {}), 0);
  EXPECT_EQ(rig.hosts.seen().cq_overruns, 1u);
  EXPECT_EQ(rig.a.state(), IBV_QPS_ERR);
  EXPECT_EQ(rig.a.async_events(), (std::vector{IBV_EVENT_CQ_ERR, IBV_EVENT_QP_FATAL}));
}

TEST(RdmaDoubleQueues, CompletionsOfDestroyedPair) {
  for (const bool stay : {true, false}) {
    rdma_double hosts({{.name = "one", .keeps_completions = stay}, {.name = "two"}});
    rdma_end a("one"), b("two");
    connect(a, b);
    ASSERT_EQ(a.post(rdma_end::request(IBV_WR_RDMA_WRITE, 1), {}), 0);
    ASSERT_EQ(verbs().destroy_qp(std::exchange(a.qp, nullptr)), 0);
    EXPECT_EQ(a.outcomes(), stay ? "1 ok" : "");
  }
}

TEST(RdmaDoubleQueues, ArmingIsForOneFutureCompletion) {
  rdma_rig rig;
  for (std::uint64_t id : {1, 2, 3, 4}) ASSERT_EQ(rig.b.receive(id, {}), 0);
  ASSERT_EQ(send(rig, 1), 0);
  EXPECT_EQ(rig.b.events(), 0u) << "not armed";
  ASSERT_EQ(ibv_req_notify_cq(rig.b.cq, 0), 0);
  EXPECT_EQ(rig.b.events(), 0u) << "it was there before";
  ASSERT_EQ(send(rig, 2), 0);
  ASSERT_EQ(send(rig, 3), 0);
  EXPECT_TRUE(is_readable(rig.b.channel->fd));
  EXPECT_EQ(rig.b.events(), 1u);
  EXPECT_FALSE(is_readable(rig.b.channel->fd));
  ASSERT_EQ(ibv_req_notify_cq(rig.b.cq, 0), 0);
  ASSERT_EQ(send(rig, 4), 0);
  EXPECT_EQ(rig.b.events(), 1u);
}

TEST(RdmaDoubleQueues, SolicitedArmingReportsSolicitedAndErrors) {
  rdma_rig rig;
  for (std::uint64_t id : {1, 2, 3}) ASSERT_EQ(rig.b.receive(id, {}), 0);
  ASSERT_EQ(ibv_req_notify_cq(rig.b.cq, 1), 0);
  ASSERT_EQ(send(rig, 1), 0);
  EXPECT_EQ(rig.b.events(), 0u);
  ASSERT_EQ(send(rig, 2, IBV_SEND_SOLICITED), 0);
  EXPECT_EQ(rig.b.events(), 1u);
  ASSERT_EQ(ibv_req_notify_cq(rig.b.cq, 1), 0);
  ASSERT_EQ(rig.b.break_qp(), 0);
  EXPECT_EQ(rig.b.events(), 1u);
}

TEST(RdmaDoubleQueues, ArmingForAllIsNotNarrowed) {
  rdma_rig rig;
  ASSERT_EQ(rig.b.receive(1, {}), 0);
  ASSERT_EQ(ibv_req_notify_cq(rig.b.cq, 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(rig.b.cq, 1), 0);
  ASSERT_EQ(send(rig, 1), 0);
  EXPECT_EQ(rig.b.events(), 1u);
}

TEST(RdmaDoubleQueues, GetEventBlocksOnBlockingDescriptor) {
  rdma_rig rig;
  ::fcntl(rig.b.channel->fd, F_SETFL, 0);
  ASSERT_EQ(rig.b.receive(1, {}), 0);
  ASSERT_EQ(ibv_req_notify_cq(rig.b.cq, 0), 0);
  std::thread waiter([&] {
    ibv_cq* which = nullptr;
    void* with = nullptr;
    EXPECT_EQ(verbs().get_cq_event(rig.b.channel, &which, &with), 0);
    verbs().ack_cq_events(which, 1);
  });
  EXPECT_EQ(send(rig, 1), 0);
  waiter.join();
}

TEST(RdmaDoubleQueues, ObjectsInUseAreNotDestroyed) {
  rdma_rig rig;
  const rdma_double::objects all = rig.hosts.open();
  EXPECT_EQ(all, (rdma_double::objects{2, 2, 2, 2, 2, 2, 0, 8192, 0}));
  EXPECT_EQ(verbs().close_device(rig.a.context), EBUSY);
  EXPECT_EQ(verbs().dealloc_pd(rig.a.pd), EBUSY);
  EXPECT_EQ(verbs().destroy_cq(rig.a.cq), EBUSY);
  EXPECT_EQ(verbs().destroy_comp_channel(rig.a.channel), EBUSY);
  EXPECT_EQ(verbs().destroy_qp(std::exchange(rig.a.qp, nullptr)), 0);
  EXPECT_EQ(verbs().dealloc_pd(rig.a.pd), EBUSY) << "its region";
  EXPECT_EQ(verbs().destroy_comp_channel(rig.a.channel), EBUSY) << "its queue";
  EXPECT_EQ(rig.hosts.open(), (rdma_double::objects{2, 2, 2, 2, 2, 1, 0, 8192, 0}));
}

TEST(RdmaDoubleQueues, QueueWithUnacknowledgedEventsIsNotDestroyed) {
  rdma_rig rig;
  ASSERT_EQ(rig.a.receive(1, {}), 0);
  ASSERT_EQ(ibv_req_notify_cq(rig.a.cq, 0), 0);
  ASSERT_EQ(rig.a.break_qp(), 0);
  ibv_cq* which = nullptr;
  void* with = nullptr;
  ASSERT_EQ(verbs().get_cq_event(rig.a.channel, &which, &with), 0);
  EXPECT_EQ(rig.hosts.open().unacked_events, 1u);
  ASSERT_EQ(verbs().destroy_qp(std::exchange(rig.a.qp, nullptr)), 0);
  ibv_cq* const gone = std::exchange(rig.a.cq, nullptr);
  EXPECT_NONFATAL_FAILURE(verbs().destroy_cq(gone), "would block for ever");
}

TEST(RdmaDoubleQueues, UnfetchedEventsGoWithTheirQueue) {
  rdma_rig rig;
  ASSERT_EQ(rig.a.receive(1, {}), 0);
  ASSERT_EQ(ibv_req_notify_cq(rig.a.cq, 0), 0);
  ASSERT_EQ(rig.a.break_qp(), 0);
  ASSERT_EQ(verbs().destroy_qp(std::exchange(rig.a.qp, nullptr)), 0);
  EXPECT_EQ(verbs().destroy_cq(std::exchange(rig.a.cq, nullptr)), 0);
  ibv_cq* which = nullptr;
  void* with = nullptr;
  EXPECT_EQ(verbs().get_cq_event(rig.a.channel, &which, &with), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(RdmaDoubleQueues, AcknowledgingTooManyIsMisuse) {
  rdma_rig rig;
  EXPECT_NONFATAL_FAILURE(verbs().ack_cq_events(rig.a.cq, 1), "more than were fetched");
  --rig.a.cq->comp_events_completed;
}

}  // namespace
}  // namespace tandem::test
