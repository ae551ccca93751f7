// Deadlines of one operation and of the channel. Only late operations end.

#include <boost/asio/use_awaitable.hpp>

#include "support/channel_case.hpp"
#include "support/pending_operation.hpp"

namespace tandem::test {

using clock = std::chrono::steady_clock;

static void expect_timed_out(const operation& op, std::initializer_list<std::string> words) {
  EXPECT_EQ(op.result, errc::timed_out) << op.result.message();
  if (op.failure) expect_error(*op.failure, errc::timed_out, words);
  EXPECT_TRUE(op.failure);
}

CHANNEL_TEST(deadline_of_a_recv, settings{}) {
  std::vector<std::byte> into(10);
  pending_operation late(to, operation::kind::recv, 0, into);
  late.deadline = clock::now() + 20ms;
  EXPECT_FALSE(late.start());
  co_await late.wait();
  EXPECT_EQ(late.completions, 1);
  expect_timed_out(late, {"recv: waiting for a message", "0 bytes", "--operation-timeout-s"});
  co_await expect_usable(from, to);
}

/// With lanes that are reset, its announcement may still wait for one.
static std::string unmatched_send() {
  return channel_test::GetParam().is_steady ? "send: waiting for the receiver" : "send";
}

CHANNEL_TEST(deadline_of_an_unmatched_send, small_settings()) {
  std::vector<std::byte> message = pattern(5000, 1);
  pending_operation late(from, operation::kind::send, 0, message);
  late.deadline = clock::now() + 20ms;
  EXPECT_FALSE(late.start());
  co_await late.wait();
  expect_timed_out(late, {unmatched_send(), "0 of 5000 bytes"});
  co_await send_pattern(from, 1, 10, 0);
  co_await recv_pattern(to, 1, 10, 0);  // ordered after the withdrawal
  co_await expect_usable(from, to);
}

CHANNEL_TEST(deadline_that_has_passed_before, settings{}) {
  std::vector<std::byte> into(10);
  pending_operation late(to, operation::kind::recv, 0, into);
  late.deadline = clock::now() - 1s;
  EXPECT_FALSE(late.start());
  co_await late.wait();
  expect_timed_out(late, {"recv"});
  co_await expect_usable(from, to);
}

CHANNEL_TEST(deadlines_in_any_order, settings{}) {
  constexpr int count = 12;
  std::vector<std::unique_ptr<pending_operation>> all;
  for (int i = 0; i < count; ++i) {
    all.push_back(std::make_unique<pending_operation>(to, operation::kind::recv,
                                                      static_cast<flow_id>(i % 3), mutable_view()));
    all.back()->deadline = clock::now() + std::chrono::milliseconds((i * 7) % count * 5 + 1);
    all.back()->start();
  }
  pending_operation without_deadline(to, operation::kind::recv, 9, mutable_view());
  without_deadline.start();
  for (const auto& late : all) co_await late->wait();
  for (const auto& late : all) expect_timed_out(*late, {"recv"});
  EXPECT_EQ(without_deadline.completions, 0);
  co_await from.send(9, const_view());
  co_await without_deadline.wait();
  EXPECT_FALSE(without_deadline.result);
}

/// The channel's default deadline must not be stored in an operation that is reused.
CHANNEL_TEST(deadline_is_the_callers, settings{}) {
  std::vector<std::byte> into(10);
  pending_operation again(to, operation::kind::recv, 0, into);
  for (int i = 0; i < 3; ++i) {
    again.completions = 0;
    EXPECT_FALSE(again.start());
    co_await send_pattern(from, 0, 10, 1);
    co_await again.wait();
    EXPECT_FALSE(again.result);
    EXPECT_EQ(again.deadline, clock::time_point::max());
  }
}

static settings short_timeout() {
  settings s = small_settings();
  s.operation_timeout = 50ms;
  return s;
}

CHANNEL_TEST(deadline_of_the_channel, short_timeout()) {
  std::vector<std::byte> into(10);
  const auto of_recv = co_await failure_of(to.recv(0, into));
  expect_error(of_recv, errc::timed_out, {"recv: waiting for a message"});
  const auto of_probe = co_await failure_of(to.probe(2));
  expect_error(of_probe, errc::timed_out, {"probe: waiting for a message"});
  const auto of_send = co_await failure_of(send_pattern(from, 1, 5000, 1));
  expect_error(of_send, errc::timed_out, {unmatched_send(), "0 of 5000 bytes"});
}

}  // namespace tandem::test
