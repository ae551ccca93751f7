// Every channel, stopped after each handler that its loop runs: by destruction in both orders, by
// cancellation, by closing. AddressSanitizer and LeakSanitizer detect leaks and late accesses.

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/async.hpp>
#include <tandem/channel.hpp>

#include "brute_force/stepping.hpp"
#include "support/channel_case.hpp"

namespace tandem::test {
namespace {

constexpr flow_id spare_flow = 60;

std::vector<awaitable<void>> both(awaitable<void> first, awaitable<void> second) {
  std::vector<awaitable<void>> all;
  all.push_back(std::move(first));
  all.push_back(std::move(second));
  return all;
}

awaitable<void> ping_pong(channel& a, channel& b) {
  for (std::uint64_t i = 0; i < 2; ++i) {
    co_await send_pattern(a, 0, 100, i);
    co_await recv_pattern(b, 0, 100, i);
    co_await when_all(both(recv_pattern(a, 0, 50, i), send_pattern(b, 0, 50, i)));
  }
}

awaitable<void> announced_both_ways(channel& a, channel& b) {
  auto there = when_all(both(send_pattern(a, 1, 5000, 1), recv_pattern(b, 1, 5000, 1)));
  auto back = when_all(both(send_pattern(b, 1, 3000, 2), recv_pattern(a, 1, 3000, 2)));
  co_await when_all(both(std::move(there), std::move(back)));
}

/// Owns its buffer, as it may outlive the scenario that started it.
awaitable<void> recv_anything(channel& on, flow_id flow) {
  std::vector<std::byte> into(5000);
  co_await on.recv(flow, into);
}

awaitable<void> with_cancellations(channel& a, channel& b) {
  background receiver(b.get_executor(), recv_anything(b, 2));
  background sender(a.get_executor(), send_pattern(a, 2, 5000, 1));
  background second(a.get_executor(), send_pattern(a, 2, 5000, 1));
  co_await turns(2);
  second.cancel();
  sender.cancel();
  co_await sender.failure();
  receiver.cancel();
  co_await receiver.failure();
  co_await second.failure();
}

awaitable<void> nested_joins(channel& a, channel& b) {
  auto exchange = when_all(both(send_pattern(a, 3, 2000, 1), recv_pattern(b, 3, 2000, 1)));
  auto timed = with_deadline(1h, std::move(exchange), "exchange");
  auto other = with_deadline(
      1h, when_all(both(send_pattern(b, 4, 20, 2), recv_pattern(a, 4, 20, 2))), "other");
  const auto outcomes = co_await collect_all(both(std::move(timed), std::move(other)));
  for (const std::exception_ptr& outcome : outcomes) {
    if (outcome) std::rethrow_exception(outcome);
  }
}

awaitable<void> more_than_may_be_announced(channel& a, channel& b) {
  std::vector<awaitable<void>> all;
  for (std::uint64_t i = 0; i < 20; ++i) all.push_back(send_pattern(a, 5, 300 + i, i));
  for (std::uint64_t i = 0; i < 20; ++i) all.push_back(recv_pattern(b, 5, 300 + i, i));
  co_await when_all(std::move(all));
}

awaitable<void> send_three(channel& on) {
  const std::vector<std::byte> message = pattern(3000, 1);
  batch all(on.get_executor(), 3);
  for (const std::size_t bytes : {20, 3000, 0}) {
    all.send(on, 6, const_view(std::span(message)).part(0, bytes));
  }
  co_await all.all();
}

awaitable<void> receive_three(channel& on) {
  std::vector<std::byte> into(9000);
  batch all(on.get_executor(), 3);
  for (const std::size_t number : {0, 1, 2}) {
    all.recv(on, 6, mutable_view(std::span(into)).part(number * 3000, 3000));
  }
  co_await all.all();
  EXPECT_EQ(all.bytes(1), 3000u);
}

awaitable<void> batches(channel& a, channel& b) {
  co_await when_all(both(send_three(a), receive_three(b)));
}

using body = channel_test::body;
constexpr body scenarios[] = {ping_pong,    announced_both_ways,        with_cancellations,
                              nested_joins, more_than_may_be_announced, batches};

awaitable<void> from_connect_on(const channel_case& kind, body run) {
  channel_pair pair = co_await kind.connect(small_settings());
  co_await run(*pair.first, *pair.second);
}

awaitable<void> connect_into(const channel_case& kind, channel_pair& pair) {
  channel_pair made = co_await kind.connect(small_settings());
  pair = std::move(made);
}

/// Runs the scenario and calls `stop` after 0 steps, then again after more steps each time, until
/// the scenario completes first.
void after_every_step(const channel_case& kind, body run,
                      void (*stop)(stepping& loop, channel_pair& pair)) {
  for (std::uint64_t steps = 0;; steps = next_stop(steps)) {
    SCOPED_TRACE("after " + std::to_string(steps) + " steps");
    stepping loop;
    channel_pair pair;
    loop.start(connect_into(kind, pair));
    ASSERT_TRUE(loop.finish());
    ASSERT_FALSE(loop.failure()) << loop.failure()->what();
    loop.start(run(*pair.first, *pair.second));
    loop.step(steps);
    if (loop.is_over()) {
      EXPECT_FALSE(loop.failure()) << loop.failure()->what();
      EXPECT_GT(steps, 0u);
      return;
    }
    stop(loop, pair);
    if (testing::Test::HasFailure()) return;
  }
}

void destroy_channels(stepping&, channel_pair& pair) {
  pair.first.reset();
  pair.second.reset();
}

void close_one(stepping& loop, channel_pair& pair) {
  pair.second->close();
  EXPECT_TRUE(loop.finish()) << "still waiting after the channel was closed";
  if (!loop.failure()) return;
  const error_code code = loop.failure()->code();
  EXPECT_TRUE(code == errc::channel_closed || code == errc::peer_closed ||
              code == errc::peer_lost || code == asio::error::operation_aborted)
      << loop.failure()->what();
}

void cancel_all(stepping& loop, channel_pair& pair) {
  loop.cancel();
  EXPECT_TRUE(loop.finish()) << "still waiting after it was cancelled";
  if (loop.failure()) {
    // A receive may fail because its send was cancelled, before it is cancelled itself.
    const error_code code = loop.failure()->code();
    EXPECT_TRUE(code == asio::error::operation_aborted || code == errc::message_cancelled)
        << loop.failure()->what();
  }
  loop.start(expect_usable(*pair.first, *pair.second, spare_flow));
  EXPECT_TRUE(loop.finish());
  EXPECT_FALSE(loop.failure()) << loop.failure()->what();
}

}  // namespace

/// Destroys the io_context first, and with it the coroutines that own the channels.
TEST_P(channel_test, stopped_by_destroying_the_loop) {
  if (GetParam().how == drive::by_spinning) GTEST_SKIP() << "the loop runs step by step";
  for (const body run : scenarios) {
    for (std::uint64_t steps = 0;; steps = next_stop(steps)) {
      stepping loop;
      loop.start(from_connect_on(GetParam(), run));
      loop.step(steps);
      if (!loop.is_over()) continue;
      EXPECT_FALSE(loop.failure()) << loop.failure()->what();
      break;
    }
  }
}

TEST_P(channel_test, stopped_by_destroying_the_channels) {
  if (GetParam().how == drive::by_spinning) GTEST_SKIP() << "the loop runs step by step";
  for (const body run : scenarios) after_every_step(GetParam(), run, destroy_channels);
}

TEST_P(channel_test, stopped_by_closing) {
  if (GetParam().how == drive::by_spinning) GTEST_SKIP() << "the loop runs step by step";
  for (const body run : scenarios) after_every_step(GetParam(), run, close_one);
}

TEST_P(channel_test, stopped_by_cancelling) {
  if (GetParam().how == drive::by_spinning) GTEST_SKIP() << "the loop runs step by step";
  for (const body run : scenarios) after_every_step(GetParam(), run, cancel_all);
}

}  // namespace tandem::test
