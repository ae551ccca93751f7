// Cancellation: what it ends, what it does not affect, and that no buffer is accessed afterwards.

#include <boost/asio/use_awaitable.hpp>

#include "support/channel_case.hpp"

namespace tandem::test {

static bool is_untouched(const std::vector<std::byte>& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == untouched; });
}

CHANNEL_TEST(cancel_queued_recv, settings{}) {
  std::vector<std::byte> into(100, untouched);
  background receiver(to.get_executor(), to.recv(0, into));
  co_await turns(2);
  receiver.cancel();
  const auto failure = co_await receiver.failure();
  expect_aborted(failure);
  expect_error(failure, asio::error::operation_aborted, {"recv: waiting for a message"});
  // Its message goes to the next receive.
  co_await send_pattern(from, 0, 100, 1);
  co_await recv_pattern(to, 0, 100, 1);
  EXPECT_TRUE(is_untouched(into));
}

CHANNEL_TEST(cancel_one_of_several_recvs, settings{}) {
  background first(to.get_executor(), recv_pattern(to, 0, 100, 1));
  background second(to.get_executor(), recv_pattern(to, 0, 100, 2));
  background third(to.get_executor(), recv_pattern(to, 0, 100, 2));
  co_await turns(2);
  second.cancel();
  const auto failure = co_await second.failure();
  expect_aborted(failure);
  co_await send_pattern(from, 0, 100, 1);
  co_await send_pattern(from, 0, 100, 2);
  co_await first.result();
  co_await third.result();
}

CHANNEL_TEST(total_and_partial_cancellation_of_what_has_not_moved, small_settings()) {
  for (const auto type : {asio::cancellation_type::total, asio::cancellation_type::partial}) {
    std::vector<std::byte> into(100, untouched);
    const std::vector<std::byte> message = pattern(100'000, 1);
    background receiver(to.get_executor(), enable_total_cancellation(to.recv(0, into)));
    background probe(to.get_executor(), enable_total_cancellation(to.probe(2)));
    background sender(from.get_executor(), enable_total_cancellation(from.send(1, message)));
    co_await turns(2);
    for (background* const each : {&receiver, &probe, &sender}) {
      each->cancel(type);
      const auto failure = co_await each->failure();
      expect_aborted(failure);
    }
    EXPECT_TRUE(is_untouched(into));
    co_await expect_usable(from, to, 0);
    co_await expect_usable(from, to, 1);
  }
}

static awaitable<void> spare_what_moves(channel& from, channel& to) {
  constexpr std::size_t bytes = std::size_t{16} << 20;
  for (const auto type : {asio::cancellation_type::total, asio::cancellation_type::partial}) {
    std::vector<std::byte> into(bytes, untouched);
    const std::vector<std::byte> message = pattern(bytes, 1);
    background receiver(to.get_executor(), enable_total_cancellation(to.recv(0, into)));
    background sender(from.get_executor(), enable_total_cancellation(from.send(0, message)));
    const auto has_begun = [&into] { return into[0] != untouched; };
    co_await until(has_begun, "the first byte");
    receiver.cancel(type);
    sender.cancel(type);
    co_await receiver.result();
    co_await sender.result();
    EXPECT_EQ(first_wrong(into, 1), std::nullopt);
  }
}
TEST_P(channel_test, total_and_partial_cancellation_spare_what_moves) {
  if (!GetParam().is_host) GTEST_SKIP() << "views are filled only at completion";
  both_ways(spare_what_moves, settings{});
}

/// As any Asio coroutine.
CHANNEL_TEST(total_and_partial_cancellation_are_ignored_by_default, settings{}) {
  std::vector<std::byte> into(100, untouched);
  background receiver(to.get_executor(), to.recv(0, into));
  co_await turns(2);
  receiver.cancel(asio::cancellation_type::total);
  receiver.cancel(asio::cancellation_type::partial);
  co_await turns(2);
  co_await send_pattern(from, 0, 100, 1);
  co_await receiver.result();
  EXPECT_EQ(first_wrong(into, 1), std::nullopt);
}

/// The message is long enough that the receive is being filled when it is cancelled.
static awaitable<void> cancel_while_filling(channel& from, channel& to) {
  constexpr std::size_t bytes = std::size_t{16} << 20;
  std::vector<std::byte> into(bytes, untouched);
  const std::vector<std::byte> message = pattern(bytes, 1);
  background receiver(to.get_executor(), to.recv(0, into));
  background sender(from.get_executor(), from.send(0, message));
  const auto has_begun = [&into] { return into[0] != untouched; };
  co_await until(has_begun, "the first byte");
  receiver.cancel();
  const auto failure = co_await receiver.failure();
  if (failure) {
    expect_aborted(failure);
    std::fill(into.begin(), into.end(), untouched);
    co_await sender.result();
    EXPECT_TRUE(is_untouched(into)) << "written after the receive was over";
  } else {
    EXPECT_EQ(first_wrong(into, 1), std::nullopt);
    co_await sender.result();
  }
  co_await expect_usable(from, to);
}
TEST_P(channel_test, cancel_recv_being_filled) {
  if (!GetParam().is_host) GTEST_SKIP() << "views are filled only at completion";
  both_ways(cancel_while_filling, small_settings());
}

CHANNEL_TEST(cancel_recv_of_an_eager_message, settings{}) {
  for (int delay = 0; delay < 6; ++delay) {
    std::vector<std::byte> into(60'000, untouched);
    background receiver(to.get_executor(), to.recv(0, into));
    background sender(from.get_executor(), send_pattern(from, 0, 60'000, 1));
    co_await turns(delay);
    receiver.cancel();
    const auto failure = co_await receiver.failure();
    co_await sender.result();
    if (failure) {
      expect_aborted(failure);
      // Either it was still queued, and the message waits for the next receive, or it is dropped.
      const std::vector<std::byte> kept = into;
      co_await send_pattern(from, 1, 10, 2);
      co_await recv_pattern(to, 1, 10, 2);
      EXPECT_EQ(into, kept) << "written after the receive was over";
      if (to.stats().unexpected_bytes > 0) co_await recv_pattern(to, 0, 60'000, 1);
    } else {
      EXPECT_EQ(first_wrong(into, 1), std::nullopt);
    }
    co_await expect_usable(from, to);
  }
}

/// At most 16 messages may be announced: the 17th waits at the sender.
CHANNEL_TEST(cancel_queued_send, small_settings()) {
  std::vector<background> announced;
  for (std::uint64_t i = 0; i < 16; ++i) {
    announced.emplace_back(from.get_executor(), send_pattern(from, 0, 500, i));
  }
  background queued(from.get_executor(), send_pattern(from, 0, 500, 99));
  background behind(from.get_executor(), send_pattern(from, 0, 500, 16));
  co_await turns(10);
  queued.cancel();
  const auto failure = co_await queued.failure();
  expect_aborted(failure);
  for (std::uint64_t i = 0; i < 17; ++i) co_await recv_pattern(to, 0, 500, i);
  for (background& sender : announced) co_await sender.result();
  co_await behind.result();
}

/// Announced, with no receive posted at the peer: the message is withdrawn.
CHANNEL_TEST(cancel_announced_send_unmatched, small_settings()) {
  background sender(from.get_executor(), send_pattern(from, 0, 5000, 1));
  co_await send_pattern(from, 1, 10, 0);
  co_await recv_pattern(to, 1, 10, 0);  // ordered after the announcement
  EXPECT_FALSE(sender.is_over());
  sender.cancel();
  const auto failure = co_await sender.failure();
  expect_aborted(failure);
  expect_error(failure, asio::error::operation_aborted,
               {"send: waiting for the receiver", "0 of 5000 bytes"});
  co_await send_pattern(from, 1, 10, 0);
  co_await recv_pattern(to, 1, 10, 0);  // ordered after the withdrawal
  background next(from.get_executor(), send_pattern(from, 0, 5000, 2));
  co_await recv_pattern(to, 0, 5000, 2);
  co_await next.result();
}

/// Cancelled at any time while it is announced, accepted or in transfer: both ends agree on the
/// result, and the next message of the flow is intact.
CHANNEL_TEST(cancel_send_at_any_moment, small_settings()) {
  int cancelled = 0;
  for (int delay = 0; delay < 40; ++delay) {
    constexpr std::size_t bytes = std::size_t{1} << 20;
    std::vector<std::byte> message = pattern(bytes, 1);
    std::vector<std::byte> into(bytes, untouched);
    background sender(from.get_executor(), from.send(0, message));
    if (delay % 4 != 0) co_await turns(delay / 4);
    if (delay % 2 == 0) sender.cancel();
    background receiver(to.get_executor(), to.recv(0, into));
    co_await turns(delay);
    sender.cancel();
    const auto of_send = co_await sender.failure();
    std::fill(message.begin(), message.end(), std::byte{0});  // the buffer is free again
    background next(from.get_executor(), send_pattern(from, 0, 300, 2));
    if (!of_send) {
      const std::size_t length = co_await receiver.result();
      EXPECT_EQ(length, bytes);
      EXPECT_EQ(first_wrong(into, 1), std::nullopt);
      co_await recv_pattern(to, 0, 300, 2);
    } else {
      ++cancelled;
      expect_aborted(of_send);
      const auto of_recv = co_await receiver.failure();
      if (of_recv) {  // the message was accepted
        expect_error(of_recv, errc::message_cancelled, {"of 1048576 bytes"});
        co_await recv_pattern(to, 0, 300, 2);
      } else {  // it was withdrawn, and the receive matched the next one
        EXPECT_EQ(first_wrong(std::span(into).first(300), 2), std::nullopt);
      }
    }
    co_await next.result();
  }
  EXPECT_GT(cancelled, 0);
  co_await expect_usable(from, to);
}

CHANNEL_TEST(cancel_everything_pending, small_settings()) {
  std::vector<background> all;
  std::vector<std::vector<std::byte>> buffers(40, std::vector<std::byte>(3000, untouched));
  for (std::size_t i = 0; i < 20; ++i) {
    const flow_id flow = static_cast<flow_id>(i % 4);
    all.emplace_back(to.get_executor(), to.recv(flow, buffers[i]));
    all.emplace_back(from.get_executor(), from.send(flow + 4, buffers[20 + i]));
  }
  co_await turns(5);
  for (background& part : all) part.cancel();
  for (background& part : all) {
    const auto failure = co_await part.failure();
    expect_aborted(failure);
  }
  for (const auto& bytes : buffers) EXPECT_TRUE(is_untouched(bytes));
  for (flow_id flow = 0; flow < 8; ++flow) co_await expect_usable(from, to, flow);
}

}  // namespace tandem::test
