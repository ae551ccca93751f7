// A probe waits for a message and leaves it.

#include "support/channel_case.hpp"
#include "support/pending_operation.hpp"

namespace tandem::test {

static constexpr std::size_t lengths[] = {0, 1, 50, 64, 65, 4000, 200'000};

CHANNEL_TEST(probe_before_the_message, small_settings()) {
  for (const std::size_t bytes : lengths) {
    background probe(to.get_executor(), to.probe(3));
    co_await turns(1);
    EXPECT_FALSE(probe.is_over());
    background sender(from.get_executor(), send_pattern(from, 3, bytes, bytes));
    const std::size_t found = co_await probe.result();
    EXPECT_EQ(found, bytes);
    co_await recv_pattern(to, 3, bytes, bytes);
    co_await sender.result();
  }
}

CHANNEL_TEST(probe_after_the_message, small_settings()) {
  for (const std::size_t bytes : lengths) {
    background sender(from.get_executor(), send_pattern(from, 3, bytes, bytes));
    co_await expect_usable(from, to);
    for (int time = 0; time < 2; ++time) {
      const std::size_t found = co_await to.probe(3);
      EXPECT_EQ(found, bytes);
    }
    co_await recv_pattern(to, 3, bytes, bytes);
    co_await sender.result();
  }
}

/// The posted receive takes the first message, the probe finds the second.
CHANNEL_TEST(probe_behind_a_receive, small_settings()) {
  background receiver(to.get_executor(), recv_pattern(to, 3, 100'000, 1));
  background probe(to.get_executor(), to.probe(3));
  co_await turns(1);
  co_await send_pattern(from, 3, 100'000, 1);
  co_await receiver.result();
  co_await expect_usable(from, to);
  EXPECT_FALSE(probe.is_over());
  background sender(from.get_executor(), send_pattern(from, 3, 70, 2));
  const std::size_t found = co_await probe.result();
  EXPECT_EQ(found, 70u);
  co_await recv_pattern(to, 3, 70, 2);
  co_await sender.result();
}

CHANNEL_TEST(probe_of_one_flow_only, small_settings()) {
  background probe(to.get_executor(), to.probe(3));
  co_await turns(1);
  for (const flow_id other : {2u, 4u, 0x80000003u}) {
    background sender(from.get_executor(), send_pattern(from, other, 5000, other));
    co_await recv_pattern(to, other, 5000, other);
    co_await sender.result();
  }
  EXPECT_FALSE(probe.is_over());
  probe.cancel();
  const auto failure = co_await probe.failure();
  expect_aborted(failure);
  co_await expect_usable(from, to, 3);
}

CHANNEL_TEST(all_probes_of_a_flow_end_with_one_message, small_settings()) {
  std::vector<background> probes;
  for (int i = 0; i < 5; ++i) probes.emplace_back(to.get_executor(), to.probe(3));
  co_await turns(1);
  background sender(from.get_executor(), send_pattern(from, 3, 60, 1));
  for (background& probe : probes) {
    const std::size_t found = co_await probe.result();
    EXPECT_EQ(found, 60u);
  }
  co_await recv_pattern(to, 3, 60, 1);
  co_await sender.result();
  EXPECT_EQ(to.stats().unexpected_bytes, 0u);
}

CHANNEL_TEST(probe_times_out, small_settings()) {
  pending_operation late(to, operation::kind::probe, 3, mutable_view());
  late.deadline = std::chrono::steady_clock::now() + 20ms;
  EXPECT_FALSE(late.start());
  co_await late.wait();
  EXPECT_EQ(late.completions, 1);
  EXPECT_EQ(late.result, errc::timed_out);
  require(late.failure != nullptr, "no reason");
  expect_error(*late.failure, errc::timed_out, {"probe: waiting for a message"});
  co_await expect_usable(from, to, 3);
}

static settings two_flows() {
  settings s = small_settings();
  s.max_flows = 2;
  return s;
}

CHANNEL_TEST(probe_of_too_many_flows, two_flows()) {
  for (flow_id flow = 0; flow < 2; ++flow) co_await expect_usable(from, to, flow);
  const auto failure = co_await failure_of(to.probe(2));
  expect_error(failure, errc::limit_exceeded, {"flow 2", "max-flows 2"});
  co_await expect_usable(from, to);
}

CHANNEL_TEST(probe_when_this_end_closes, small_settings()) {
  background probe(to.get_executor(), to.probe(3));
  co_await turns(1);
  to.close();
  const auto failure = co_await probe.failure();
  expect_error(failure, errc::channel_closed, {});
  const auto later = co_await failure_of(to.probe(3));
  expect_error(later, errc::channel_closed, {});
}

/// What has arrived whole can still be received.
CHANNEL_TEST(probe_when_the_peer_closes, small_settings()) {
  co_await send_pattern(from, 3, 40, 1);
  co_await until_unexpected(to, 40);
  background probe(to.get_executor(), to.probe(4));
  co_await turns(1);
  from.close();
  const auto failure = co_await probe.failure();
  expect_error(failure, errc::peer_closed, {});
  const std::size_t found = co_await to.probe(3);
  EXPECT_EQ(found, 40u);
  co_await recv_pattern(to, 3, 40, 1);
  const auto later = co_await failure_of(to.probe(3));
  expect_error(later, errc::peer_closed, {});
}

}  // namespace tandem::test
