// Delivery: each message once, complete, in the order of its flow, of any length.

#include <boost/asio/use_awaitable.hpp>

#include "support/channel_case.hpp"

namespace tandem::test {

CHANNEL_TEST(send_then_recv, settings{}) {
  co_await send_pattern(from, 0, 100, 1);
  co_await until_unexpected(to, 100);
  co_await recv_pattern(to, 0, 100, 1);
  EXPECT_EQ(to.stats().unexpected_bytes, 0u);
  EXPECT_EQ(from.stats().messages_sent, 1u);
  EXPECT_EQ(from.stats().bytes_sent, 100u);
  EXPECT_EQ(to.stats().messages_received, 1u);
  EXPECT_EQ(to.stats().bytes_received, 100u);
}

CHANNEL_TEST(recv_before_send, settings{}) {
  background receiver(to.get_executor(), recv_pattern(to, 3, 100, 1));
  co_await turns(3);
  EXPECT_FALSE(receiver.is_over());
  co_await send_pattern(from, 3, 100, 1);
  co_await receiver.result();
  EXPECT_EQ(to.stats().unexpected_bytes_peak, 0u);
}

CHANNEL_TEST(both_ways_at_once, small_settings()) {
  std::vector<background> parts;
  for (std::uint64_t i = 0; i < 8; ++i) {
    const std::size_t bytes = 1 + i * 1500;
    parts.emplace_back(from.get_executor(), send_pattern(from, 1, bytes, i));
    parts.emplace_back(to.get_executor(), send_pattern(to, 1, bytes, 100 + i));
    parts.emplace_back(to.get_executor(), recv_pattern(to, 1, bytes, i));
    parts.emplace_back(from.get_executor(), recv_pattern(from, 1, bytes, 100 + i));
  }
  for (background& part : parts) co_await part.result();
}

static awaitable<void> round_of(channel& from, channel& to, std::size_t bytes) {
  background sender(from.get_executor(), send_pattern(from, 5, bytes, bytes));
  co_await recv_pattern(to, 5, bytes, bytes);
  co_await sender.result();
  background late(from.get_executor(), send_pattern(from, 5, bytes, bytes + 1));
  co_await turns(3);
  co_await recv_pattern(to, 5, bytes, bytes + 1);
  co_await late.result();
}

static awaitable<void> all_sizes(channel& from, channel& to) {
  const channel_limits& limits = from.limits();
  const std::size_t eager = std::max<std::size_t>(limits.eager_bytes, 1);
  const std::size_t chunk = limits.chunk_bytes;
  std::vector<std::size_t> sizes{0,
                                 1,
                                 2,
                                 7,
                                 63,
                                 64,
                                 65,
                                 1984,  // with its header 2 KiB: one iovec over tcp
                                 1985,
                                 20416,  // 20 KiB: one read of a socket
                                 20417,
                                 eager - 1,
                                 eager,
                                 eager + 1,
                                 chunk - 1,
                                 chunk,
                                 chunk + 1,
                                 2 * chunk,
                                 3333,
                                 100'001,
                                 3 * chunk + 17,
                                 7 * chunk + 1};
  for (const std::size_t bytes : sizes) co_await round_of(from, to, bytes);
}

CHANNEL_TEST(sizes, settings{}) {
  co_await all_sizes(from, to);
}

CHANNEL_TEST(sizes_with_small_pieces, small_settings()) {
  co_await all_sizes(from, to);
}

static settings nothing_eager() {
  settings s = small_settings();
  s.eager_bytes = 0;
  return s;
}

CHANNEL_TEST(sizes_with_nothing_eager, nothing_eager()) {
  co_await all_sizes(from, to);
}

CHANNEL_TEST(empty_messages_eager, settings{}) {
  co_await from.send(0, const_view());
  co_await from.send(0, const_view());
  const std::size_t first = co_await to.recv(0, mutable_view());
  EXPECT_EQ(first, 0u);
  std::vector<std::byte> into(10, std::byte{7});
  const std::size_t second = co_await to.recv(0, into);
  EXPECT_EQ(second, 0u);
  EXPECT_EQ(into, std::vector<std::byte>(10, std::byte{7}));
  co_await expect_usable(from, to);
}

/// Empty messages use credits, too, so that unexpected ones are bounded; then they are announced.
CHANNEL_TEST(empty_messages_without_credits, small_settings()) {
  constexpr int count = 200;
  std::vector<background> senders;
  for (int i = 0; i < count; ++i) {
    senders.emplace_back(from.get_executor(), from.send(2, const_view()));
  }
  co_await turns(20);
  EXPECT_FALSE(senders.back().is_over());
  for (int i = 0; i < count; ++i) {
    const std::size_t length = co_await to.recv(2, mutable_view());
    EXPECT_EQ(length, 0u);
  }
  for (background& sender : senders) co_await sender.result();
  co_await expect_usable(from, to);
}

CHANNEL_TEST(hundred_in_flight, settings{}) {
  std::vector<background> parts;
  for (std::uint64_t i = 0; i < 100; ++i) {
    parts.emplace_back(to.get_executor(), recv_pattern(to, 9, 10 + i * 1000, i));
  }
  for (std::uint64_t i = 0; i < 100; ++i) {
    parts.emplace_back(from.get_executor(), send_pattern(from, 9, 10 + i * 1000, i));
  }
  for (background& part : parts) co_await part.result();
  EXPECT_EQ(to.stats().messages_received, 100u);
}

/// Far more announced messages than may be open at once, and short ones between them: the length
/// identifies the message.
CHANNEL_TEST(order_of_a_flow, small_settings()) {
  constexpr std::size_t count = 300;
  std::vector<background> senders;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t bytes = i % 3 == 0 ? i % 200 : 300 + i;
    senders.emplace_back(from.get_executor(), send_pattern(from, 4, bytes, i));
    if (i % 37 == 0) co_await turns(2);
  }
  for (std::size_t i = 0; i < count; ++i) {
    co_await recv_pattern(to, 4, i % 3 == 0 ? i % 200 : 300 + i, i);
  }
  for (background& sender : senders) co_await sender.result();
}

CHANNEL_TEST(unaligned_views, small_settings()) {
  std::vector<std::byte> source = pattern(10'000, 1);
  for (const std::size_t bytes : {3u, 255u, 257u, 5001u}) {
    for (const std::size_t offset : {1u, 2u, 13u}) {
      std::vector<std::byte> target(bytes + 40, std::byte{0xee});
      const const_view message = const_view(source).part(offset, bytes);
      const mutable_view into = mutable_view(target).part(offset + 4, bytes);
      background sender(from.get_executor(), from.send(0, message));
      const std::size_t length = co_await to.recv(0, into);
      co_await sender.result();
      EXPECT_EQ(length, bytes);
      EXPECT_TRUE(std::equal(target.begin() + static_cast<std::ptrdiff_t>(offset + 4),
                             target.begin() + static_cast<std::ptrdiff_t>(offset + 4 + bytes),
                             source.begin() + static_cast<std::ptrdiff_t>(offset)));
      const auto untouched = std::count(target.begin(), target.end(), std::byte{0xee});
      EXPECT_GE(untouched, 40) << "bytes beside the view were written";
    }
  }
}

/// A view may be longer than its message; the rest is not written.
CHANNEL_TEST(longer_view_than_message, small_settings()) {
  for (const std::size_t bytes : {10u, 256u, 3000u}) {
    std::vector<std::byte> target(bytes + 500, std::byte{0xee});
    background sender(from.get_executor(), send_pattern(from, 0, bytes, 5));
    const std::size_t length = co_await to.recv(0, target);
    co_await sender.result();
    EXPECT_EQ(length, bytes);
    EXPECT_EQ(first_wrong(std::span(target).first(bytes), 5), std::nullopt);
    EXPECT_EQ(std::count(target.end() - 500, target.end(), std::byte{0xee}), 500);
  }
}

}  // namespace tandem::test
