// Batches of messages: in order, with one failure for all, and cancelled together.

#include <boost/asio/use_awaitable.hpp>
#include <tandem/channel.hpp>

#include "support/channel_case.hpp"

namespace tandem::test {
namespace {

constexpr flow_id flow = 6;

struct messages {
  explicit messages(const std::vector<std::size_t>& lengths) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      sent.push_back(pattern(lengths[i], 40 + i));
      received.emplace_back(lengths[i]);
    }
  }
  std::vector<std::vector<std::byte>> sent, received;
};

awaitable<void> send_in_batch(channel& on, const messages& what) {
  batch all(on.get_executor(), what.sent.size());
  for (const auto& each : what.sent) all.send(on, flow, const_view(std::span(each)));
  EXPECT_EQ(all.size(), what.sent.size());
  co_await all.all();
  EXPECT_EQ(all.size(), 0u);
}

/// The second send may fail because its receive failed.
awaitable<void> send_each(channel& on, const messages& what) {
  co_await on.send(flow, const_view(std::span(what.sent[0])));
  const auto failure = co_await failure_of(on.send(flow, const_view(std::span(what.sent[1]))));
  if (failure) expect_error(failure, errc::message_truncated);
  co_await on.send(flow, const_view(std::span(what.sent[2])));
}

}  // namespace

CHANNEL_TEST(batch_keeps_order_and_may_be_filled_again, small_settings()) {
  messages what({0, 1, 7, 64, 1000, 5000, 20'001, 3, 60'000, 64});
  batch window(to.get_executor(), what.sent.size());
  for (int turn = 0; turn < 2; ++turn) {
    background sender(from.get_executor(), send_in_batch(from, what));
    for (auto& each : what.received) {
      std::ranges::fill(each, std::byte{0});
      window.recv(to, flow, mutable_view(std::span(each)));
    }
    co_await window.all();
    co_await sender.result();
    EXPECT_EQ(what.received, what.sent);
    for (std::size_t i = 0; i < what.sent.size(); ++i) {
      EXPECT_EQ(window.bytes(i), what.sent[i].size());
    }
  }
}

CHANNEL_TEST(batch_with_a_message_that_is_too_long_fails_completely, small_settings()) {
  messages what({100, 300, 100});
  background sender(from.get_executor(), send_each(from, what));
  batch window(to.get_executor(), 3);
  window.recv(to, flow, mutable_view(std::span(what.received[0])));
  window.recv(to, flow, mutable_view(std::span(what.received[1])).part(0, 299));
  // Matches no message: the failure of the batch ends it.
  window.recv(to, flow + 1, mutable_view(std::span(what.received[2])));
  const auto failure = co_await failure_of(window.all());
  expect_error(failure, errc::message_truncated);
  EXPECT_EQ(window.size(), 0u);
  EXPECT_EQ(what.received[0], what.sent[0]);
  window.recv(to, flow, mutable_view(std::span(what.received[2])));
  co_await window.all();
  co_await sender.result();
  EXPECT_EQ(what.received[2], what.sent[2]);
  co_await expect_usable(from, to);
}

CHANNEL_TEST(batch_that_is_full_takes_no_more, small_settings()) {
  std::byte one{}, other{};
  batch window(to.get_executor(), 1);
  window.recv(to, flow, mutable_view(std::span(&one, 1)));
  EXPECT_THROW(window.recv(to, flow, mutable_view(std::span(&other, 1))), error);
  EXPECT_EQ(window.size(), 1u);
  co_await send_pattern(from, flow, 1, 9);
  co_await window.all();
  EXPECT_EQ(one, pattern(1, 9)[0]);
}

CHANNEL_TEST(batch_is_cancelled_completely, small_settings()) {
  std::vector<std::byte> into(300);
  batch window(to.get_executor(), 3);
  for (std::size_t i = 0; i < 3; ++i) {
    window.recv(to, flow, mutable_view(std::span(into)).part(i * 100, 100));
  }
  background all(to.get_executor(), window.all());
  co_await turns(2);
  EXPECT_FALSE(all.is_over());
  all.cancel();
  const auto failure = co_await all.failure();
  expect_aborted(failure);
  EXPECT_EQ(window.size(), 0u);
  co_await expect_usable(from, to, flow);
}

CHANNEL_TEST(batch_may_be_destroyed_with_messages_in_flight, small_settings()) {
  std::vector<std::byte> into(200);
  {
    batch window(to.get_executor(), 2);
    window.recv(to, flow, mutable_view(std::span(into)).part(0, 100));
    window.recv(to, flow, mutable_view(std::span(into)).part(100, 100));
  }
  co_await turns(3);
  co_await expect_usable(from, to, flow);
}

}  // namespace tandem::test
