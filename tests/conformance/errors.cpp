// Errors of the caller end only that operation, with a text that says what to do; the channel stays
// usable.

#include <boost/asio/use_awaitable.hpp>

#include "support/channel_case.hpp"

namespace tandem::test {

static awaitable<void> expect_truncated(channel& from, channel& to, std::size_t bytes,
                                        bool recv_first, bool sender_fails) {
  const std::string both =
      "a message of " + std::to_string(bytes) + " bytes on flow 6 matched a receive of 10 bytes";
  std::vector<std::byte> into(10, std::byte{0xee});
  std::optional<background> early;
  if (recv_first) early.emplace(to.get_executor(), to.recv(6, into));
  background sender(from.get_executor(), send_pattern(from, 6, bytes, 1));
  if (!recv_first) {
    co_await turns(3);
    early.emplace(to.get_executor(), to.recv(6, into));
  }
  const auto of_recv = co_await early->failure();
  expect_error(of_recv, errc::message_truncated, {both, "recv", "at least as long"});
  EXPECT_EQ(of_recv->context().bytes_total, static_cast<std::int64_t>(bytes));
  const auto of_send = co_await sender.failure();
  if (sender_fails) {
    expect_error(of_send, errc::message_truncated, {both, "send"});
  } else {
    EXPECT_FALSE(of_send);
  }
  EXPECT_EQ(std::count(into.begin(), into.end(), std::byte{0xee}), 10);
  co_await expect_usable(from, to, 6);
}

CHANNEL_TEST(message_longer_than_view_eager, settings{}) {
  co_await expect_truncated(from, to, 100, true, false);
  co_await expect_truncated(from, to, 100, false, false);
}

CHANNEL_TEST(message_longer_than_view_announced, small_settings()) {
  co_await expect_truncated(from, to, 5000, true, true);
  co_await expect_truncated(from, to, 5000, false, true);
}

CHANNEL_TEST(memory_of_another_kind, settings{}) {
  std::vector<std::byte> bytes(64, std::byte{0xee});
  const mutable_view device(bytes.data(), bytes.size(), memory_kind::cuda, 0);
  const auto of_send = co_await failure_of(from.send(0, device));
  expect_error(of_send, errc::unsupported_memory, {"cuda"});
  const auto of_recv = co_await failure_of(to.recv(0, device));
  expect_error(of_recv, errc::unsupported_memory, {"cuda"});
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{0xee}), 64);
  co_await expect_usable(from, to);
}

/// The view's length is wrong, but nothing may access it.
CHANNEL_TEST(message_beyond_every_limit, settings{}) {
  const std::byte one{1};
  const const_view far_too_long(&one, from.limits().max_message_bytes + 1);
  const auto failure = co_await failure_of(from.send(0, far_too_long));
  expect_error(failure, errc::limit_exceeded, {std::to_string(far_too_long.bytes)});
  co_await expect_usable(from, to);
}

CHANNEL_TEST(errors_name_the_rail, settings{}) {
  background receiver(to.get_executor(), to.recv(0, mutable_view()));
  co_await turns(1);
  receiver.cancel();
  const auto failure = co_await receiver.failure();
  expect_aborted(failure);
  EXPECT_FALSE(failure->context().rail.empty());
  expect_error(failure, failure->code(), {failure->context().rail});
}

CHANNEL_TEST(limits_are_those_of_the_settings, small_settings()) {
  for (const channel* end : {&from, &to}) {
    EXPECT_EQ(end->limits().eager_bytes, 256u);
    EXPECT_EQ(end->limits().chunk_bytes, 1024u);
    EXPECT_EQ(end->limits().max_flows, 64u);
    EXPECT_GE(end->limits().max_message_bytes, std::size_t{1} << 30);
    EXPECT_EQ(end->limits().kinds, std::vector<memory_kind>{memory_kind::host});
  }
  co_return;
}

}  // namespace tandem::test
