#include <sys/epoll.h>

#include <chrono>
#include <thread>

#include "doubles/rdma/rig.hpp"

namespace tandem::test {
namespace {

using namespace std::chrono_literals;
using call = rdma_double::call;
using delivery = rdma_double::delivery;

int write(rdma_end& from, std::uint64_t id, unsigned flags = IBV_SEND_SIGNALED) {
  return from.post(rdma_end::request(IBV_WR_RDMA_WRITE, id, flags), {});
}
int send(rdma_end& from, std::uint64_t id, unsigned flags = IBV_SEND_SIGNALED) {
  return from.post(rdma_end::request(IBV_WR_SEND, id, flags), {});
}

TEST(RdmaDoubleFaults, LinkFailsAndRecovers) {
  rdma_rig rig;
  rig.hosts.drop_link("two");
  EXPECT_EQ(rig.b.port().state, IBV_PORT_DOWN);
  EXPECT_EQ(rig.b.async_events(), std::vector{IBV_EVENT_PORT_ERR});
  EXPECT_TRUE(rig.a.async_events().empty());
  ASSERT_EQ(write(rig.a, 1), 0);
  EXPECT_EQ(rig.a.outcomes(), "1 unanswered");
  EXPECT_EQ(rig.b.state(), IBV_QPS_RTS) << "the peer was not notified";
  rig.hosts.restore_link("two");
  EXPECT_EQ(rig.b.async_events(), std::vector{IBV_EVENT_PORT_ACTIVE});
  EXPECT_EQ(rig.b.port().state, IBV_PORT_ACTIVE);
}

TEST(RdmaDoubleFaults, SenderRetriesBeforeFailing) {
  rdma_rig rig;
  rig.hosts.retry_for(10s);
  rig.hosts.drop_link("one");
  ASSERT_EQ(write(rig.a, 1), 0);
  EXPECT_EQ(rig.a.outcomes(), "");
  rig.hosts.restore_link("one");
  EXPECT_EQ(rig.a.outcomes(), "1 ok");

  rig.hosts.retry_for(5ms);
  rig.hosts.drop_link("one");
  ::fcntl(rig.a.channel->fd, F_SETFL, 0);
  ASSERT_EQ(ibv_req_notify_cq(rig.a.cq, 0), 0);
  ASSERT_EQ(write(rig.a, 2), 0);
  ibv_cq* which = nullptr;
  void* with = nullptr;
  ASSERT_EQ(verbs().get_cq_event(rig.a.channel, &which, &with), 0);
  verbs().ack_cq_events(which, 1);
  EXPECT_EQ(rig.a.outcomes(), "2 unanswered");
  EXPECT_EQ(verbs().destroy_qp(std::exchange(rig.a.qp, nullptr)), 0);
}

TEST(RdmaDoubleFaults, DeviceFailure) {
  rdma_rig rig;
  ASSERT_EQ(send(rig.a, 1, 0), 0);
  ASSERT_EQ(rig.a.receive(2, {}), 0);
  rig.hosts.fail_device("one");
  EXPECT_EQ(rig.a.async_events(), std::vector{IBV_EVENT_DEVICE_FATAL});
  EXPECT_EQ(rig.a.outcomes(), "1 flushed, 2 flushed");
  EXPECT_EQ(rig.a.make_qp(), nullptr);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(rig.a.break_qp(), EIO);
  EXPECT_EQ(open_named("one"), nullptr);
  ASSERT_EQ(write(rig.b, 1), 0);
  EXPECT_EQ(rig.b.outcomes(), "1 unanswered");
}

std::vector<std::string> listed() {
  int count = 0;
  ibv_device** const list = verbs().get_device_list(&count);
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(verbs().get_device_name(list[i]));
  verbs().free_device_list(list);
  return names;
}

TEST(RdmaDoubleFaults, RecoveredDeviceMustBeReopened) {
  rdma_rig rig;
  rig.hosts.remove_device("one");
  EXPECT_EQ(rig.a.async_events(), std::vector{IBV_EVENT_DEVICE_FATAL});
  EXPECT_EQ(listed(), std::vector<std::string>{"two"});
  rig.hosts.restore_device("one");
  EXPECT_EQ(listed(), (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(rig.a.make_qp(), nullptr) << "objects opened before stay invalid";
  rdma_end fresh("one"), peer("two");
  connect(fresh, peer);
  ASSERT_EQ(write(fresh, 1), 0);
  EXPECT_EQ(fresh.outcomes(), "1 ok");
  rig.hosts.fail_device("one");
  EXPECT_EQ(fresh.async_events(), std::vector{IBV_EVENT_DEVICE_FATAL});
  EXPECT_EQ(listed(), (std::vector<std::string>{"one", "two"}));
}

TEST(RdmaDoubleFaults, LostAcksFailSenderAfterDelivery) {
  rdma_rig rig;
  rig.hosts.retry_for(10s);
  rig.hosts.drop_acks("one", true);
  rig.a.write(0, "data");
  for (std::uint64_t id : {1, 2}) {
    ASSERT_EQ(rig.b.receive(id, {rig.b.part(0, 10)}), 0);
    ASSERT_EQ(rig.a.post(rdma_end::request(IBV_WR_SEND, id), {rig.a.part(0, 4)}), 0);
  }
  EXPECT_EQ(rig.b.outcomes(), "1 ok, 2 ok");
  EXPECT_EQ(rig.b.text_at(0, 4), "data");
  EXPECT_EQ(rig.a.outcomes(), "");
  rig.hosts.retry_for(0s);
  rig.hosts.hold("two", false);
  EXPECT_EQ(rig.a.outcomes(), "1 unanswered, 2 flushed");
  EXPECT_EQ(rig.b.state(), IBV_QPS_RTS);
}

TEST(RdmaDoubleFaults, LateAcksAreAccepted) {
  rdma_rig rig;
  rig.hosts.retry_for(10s);
  rig.hosts.drop_acks("one", true);
  ASSERT_EQ(write(rig.a, 1), 0);
  EXPECT_EQ(rig.a.outcomes(), "");
  rig.hosts.drop_acks("one", false);
  EXPECT_EQ(rig.a.outcomes(), "1 ok");
}

TEST(RdmaDoubleFaults, AbandonedPacketsMayArriveLate) {
  for (const bool fenced : {false, true}) {
    rdma_rig rig;
    rig.hosts.delay_packets("one", true);
    rig.a.write(0, "late");
    ASSERT_EQ(rig.b.receive(1, {}), 0);
    ibv_send_wr wr = rdma_end::request(IBV_WR_RDMA_WRITE_WITH_IMM, 2);
    rdma_end::set_target(wr, rig.b, 0);
    ASSERT_EQ(rig.a.post(wr, {rig.a.part(0, 4)}), 0);
    EXPECT_EQ(rig.a.outcomes(), "2 unanswered");
    EXPECT_EQ(rig.b.text_at(0, 4) + rig.b.outcomes(), "....");
    rig.a.write(0, "next");
    EXPECT_EQ(verbs().destroy_qp(std::exchange(rig.a.qp, nullptr)), 0);
    if (fenced) {
      ASSERT_EQ(rig.b.break_qp(), 0);
    }
    rig.hosts.delay_packets("one", false);
    EXPECT_EQ(rig.b.text_at(0, 4) + rig.b.outcomes(), fenced ? "....1 flushed" : "late1 ok");
  }
}

TEST(RdmaDoubleFaults, DelayedPacketsArriveWithinRetries) {
  rdma_rig rig;
  rig.hosts.retry_for(10s);
  rig.hosts.delay_packets("one", true);
  ASSERT_EQ(write(rig.a, 1), 0);
  EXPECT_EQ(rig.a.outcomes(), "");
  rig.hosts.delay_packets("one", false);
  EXPECT_EQ(rig.a.outcomes(), "1 ok");
}

TEST(RdmaDoubleFaults, GidChanges) {
  rdma_rig rig;
  rig.hosts.change_gids("two", {rdma_double::roce("10.9.9.9", 2)});
  EXPECT_EQ(rig.b.async_events(), std::vector{IBV_EVENT_GID_CHANGE});
  ASSERT_EQ(write(rig.a, 1), 0);
  EXPECT_EQ(rig.a.outcomes(), "1 unanswered");
}

TEST(RdmaDoubleFaults, PausedDeviceMovesOnlyWhenPumped) {
  rdma_double hosts({{.name = "one"}, {.name = "two"}, {.name = "three"}, {.name = "four"}});
  rdma_end a("one"), b("two"), c("three"), d("four");
  connect(a, b);
  connect(c, d);
  hosts.hold("two", true);
  a.write(0, "x");
  ASSERT_EQ(b.receive(1, {b.part(0, 1)}), 0);
  ASSERT_EQ(a.post(rdma_end::request(IBV_WR_SEND, 2), {a.part(0, 1)}), 0);
  ASSERT_EQ(write(c, 3), 0);
  EXPECT_EQ(c.outcomes(), "3 ok") << "others go on";
  EXPECT_EQ(a.outcomes() + b.outcomes(), "");
  EXPECT_EQ(hosts.pump(1, "four"), 0u);
  EXPECT_EQ(hosts.pump(1, "two"), 1u);
  EXPECT_EQ(b.text_at(0, 1), "x");
  EXPECT_EQ(b.outcomes(), "1 ok");
  EXPECT_EQ(a.outcomes(), "") << "the acknowledgement is in flight";
  hosts.hold("two", false);
  EXPECT_EQ(a.outcomes(), "2 ok");
}

TEST(RdmaDoubleFaults, StepByStep) {
  rdma_rig rig;
  rig.hosts.deliver(delivery::by_pump);
  ASSERT_EQ(write(rig.a, 1), 0);
  ASSERT_EQ(write(rig.a, 2), 0);
  EXPECT_EQ(rig.hosts.seen().writes, 0u);
  EXPECT_EQ(rig.hosts.pump(), 1u);
  EXPECT_EQ(rig.hosts.seen().writes, 1u);
  EXPECT_EQ(rig.a.outcomes(), "");
  EXPECT_EQ(rig.hosts.pump(2), 2u);
  EXPECT_EQ(rig.a.outcomes(), "1 ok");
  rig.hosts.drop_link("two");
  EXPECT_EQ(rig.a.outcomes(), "") << "delivered, and the acknowledgement is lost";
  EXPECT_EQ(rig.hosts.pump(), 1u);
  EXPECT_EQ(rig.hosts.pump(), 1u);
  EXPECT_EQ(rig.a.outcomes(), "2 unanswered");
  ASSERT_EQ(rig.b.receive(1, {}), 0);
  ASSERT_EQ(rig.b.receive(2, {}), 0);
  ASSERT_EQ(rig.b.break_qp(), 0);
  EXPECT_EQ(rig.hosts.pump(), 1u);
  EXPECT_EQ(rig.b.outcomes(), "1 flushed") << "flushing takes its time, too";
  EXPECT_EQ(rig.hosts.pump_all(), 1u);
}

TEST(RdmaDoubleFaults, NothingMovesUntilPolled) {
  rdma_rig rig;
  rig.hosts.deliver(delivery::at_poll);
  ASSERT_EQ(rig.b.receive(1, {rig.b.part(0, 1)}), 0);
  ASSERT_EQ(ibv_req_notify_cq(rig.b.cq, 0), 0);
  rig.a.write(0, "x");
  ASSERT_EQ(rig.a.post(rdma_end::request(IBV_WR_SEND, 1), {rig.a.part(0, 1)}), 0);
  EXPECT_EQ(rig.b.text_at(0, 1), ".");
  EXPECT_EQ(rig.b.events(), 1u) << "the blocked thread is woken";
  EXPECT_EQ(rig.b.outcomes(), "1 ok");
  EXPECT_EQ(rig.a.outcomes(), "1 ok");
}

TEST(RdmaDoubleFaults, InjectsCallFailures) {
  rdma_rig rig;
  rdma_end& a = rig.a;
  const auto fails = [&](call which, auto make) {
    rig.hosts.fail_next(which, ENOSPC);
    errno = 0;
    EXPECT_EQ(make(), nullptr);
    EXPECT_EQ(errno, ENOSPC);
  };
  int count = 0;
  fails(call::get_device_list, [&] { return verbs().get_device_list(&count); });
  fails(call::open_device, [] { return open_named("one"); });
  fails(call::alloc_pd, [&] { return verbs().alloc_pd(a.context); });
  fails(call::reg_mr, [&] { return verbs().reg_mr(a.pd, a.memory.data(), 1, 0); });
  fails(call::reg_dmabuf_mr, [&] { return verbs().reg_dmabuf_mr(a.pd, 0, 1, 0, 0, 0); });
  fails(call::create_comp_channel, [&] { return verbs().create_comp_channel(a.context); });
  fails(call::create_cq, [&] { return verbs().create_cq(a.context, 1, nullptr, nullptr, 0); });
  fails(call::create_qp, [&] { return a.make_qp(); });

  const auto returns = [&](call which, auto make) {
    rig.hosts.fail_next(which, ENOSPC);
    return make();
  };
  ibv_device_attr device;
  ibv_port_attr port;
  ibv_gid_entry gid;
  ibv_qp_attr attr;
  ibv_qp_init_attr made_as;
  EXPECT_EQ(returns(call::query_device, [&] { return verbs().query_device(a.context, &device); }),
            ENOSPC);
  EXPECT_EQ(returns(call::query_port, [&] { return verbs().query_port(a.context, 1, &port); }),
            ENOSPC);
  EXPECT_EQ(returns(call::query_gid_table,
                    [&] { return verbs().query_gid_table(a.context, &gid, 9, 0, sizeof gid); }),
            -ENOSPC);
  EXPECT_EQ(returns(call::modify_qp, [&] { return a.break_qp(); }), ENOSPC);
  EXPECT_EQ(returns(call::query_qp, [&] { return verbs().query_qp(a.qp, &attr, 0, &made_as); }),
            ENOSPC);
  EXPECT_EQ(returns(call::post_send, [&] { return write(a, 1); }), ENOSPC);
  EXPECT_EQ(returns(call::post_recv, [&] { return a.receive(1, {}); }), ENOSPC);
  EXPECT_EQ(returns(call::req_notify_cq, [&] { return ibv_req_notify_cq(a.cq, 0); }), ENOSPC);
  ibv_wc wc;
  EXPECT_LT(returns(call::poll_cq, [&] { return ibv_poll_cq(a.cq, 1, &wc); }), 0);
  ibv_cq* which = nullptr;
  void* with = nullptr;
  EXPECT_EQ(
      returns(call::get_cq_event, [&] { return verbs().get_cq_event(a.channel, &which, &with); }),
      -1);
  EXPECT_EQ(errno, ENOSPC);
  ibv_async_event event;
  EXPECT_EQ(
      returns(call::get_async_event, [&] { return verbs().get_async_event(a.context, &event); }),
      -1);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(rig.hosts.seen().writes, 0u);
}

TEST(RdmaDoubleFaults, InjectsFailureOfLaterCall) {
  rdma_rig rig;
  rig.hosts.fail_next(call::post_send, EIO, 2);
  EXPECT_EQ(write(rig.a, 1), 0);
  EXPECT_EQ(write(rig.a, 2), 0);
  EXPECT_EQ(write(rig.a, 3), EIO);
  EXPECT_EQ(write(rig.a, 4), 0);
  EXPECT_EQ(rig.a.outcomes(), "1 ok, 2 ok, 4 ok");
}

TEST(RdmaDoubleFaults, InjectsCompletionStatus) {
  rdma_rig rig;
  rig.hosts.fail_next_wr(IBV_WC_REM_OP_ERR, "two");
  ASSERT_EQ(write(rig.a, 1), 0);
  EXPECT_EQ(rig.a.outcomes(), "1 ok");
  ASSERT_EQ(write(rig.b, 2, 0), 0);
  ASSERT_EQ(write(rig.b, 3, 0), 0);
  EXPECT_EQ(rig.b.outcomes(), "2 failed there, 3 flushed");
  EXPECT_EQ(rig.hosts.seen().writes, 1u);
}

/// Edge-triggered, as Asio uses epoll.
TEST(RdmaDoubleFaults, DescriptorsSupportEdgeTriggeredPolling) {
  rdma_rig rig;
  const int watch = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event one{};
  one.events = EPOLLIN | EPOLLET;
  ASSERT_EQ(::epoll_ctl(watch, EPOLL_CTL_ADD, rig.a.channel->fd, &one), 0);
  ASSERT_EQ(::epoll_ctl(watch, EPOLL_CTL_ADD, rig.a.context->async_fd, &one), 0);
  EXPECT_EQ(::epoll_wait(watch, &one, 1, 0), 0);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(rig.a.cq, 0), 0);
    ASSERT_EQ(write(rig.a, 1), 0);
    EXPECT_EQ(::epoll_wait(watch, &one, 1, 0), 1) << "with the previous one not yet fetched";
  }
  EXPECT_EQ(rig.a.events(), 2u);
  rig.hosts.drop_link("one");
  EXPECT_EQ(::epoll_wait(watch, &one, 1, 0), 1);
  EXPECT_EQ(rig.a.async_events(), std::vector{IBV_EVENT_PORT_ERR});
  ::close(watch);
}

TEST(RdmaDoubleFaults, IsThreadSafe) {
  rdma_rig rig;
  rig.hosts.deliver(delivery::by_pump);
  std::thread mover([&] {
    for (std::size_t moved = 0; moved < 200;) moved += rig.hosts.pump();
  });
  for (int round = 0; round < 100; ++round) {
    rig.a.write(0, "payload");
    ibv_send_wr wr = rdma_end::request(IBV_WR_RDMA_WRITE, 1);
    rdma_end::set_target(wr, rig.b, 0);
    ASSERT_EQ(rig.a.post(wr, {rig.a.part(0, 7)}), 0);
    while (rig.a.poll().empty()) std::this_thread::yield();
  }
  mover.join();
  EXPECT_EQ(rig.b.text_at(0, 8), "payload.");
}

}  // namespace
}  // namespace tandem::test
