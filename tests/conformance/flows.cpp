// Flows are independent, and unexpected messages take bounded memory.

#include <boost/asio/use_awaitable.hpp>

#include "support/channel_case.hpp"

namespace tandem::test {

/// The long message of flow 1 and the thousand short ones of flow 3 are not received; flow 2 works.
static awaitable<void> leave_two_flows_unread(channel& from, channel& to, std::size_t long_bytes,
                                              std::size_t short_bytes, const settings& with) {
  const std::vector<std::byte> unread = pattern(long_bytes, 1);
  background blocked(from.get_executor(), from.send(1, unread));
  std::vector<background> ignored;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ignored.emplace_back(from.get_executor(), send_pattern(from, 3, short_bytes, i));
  }
  for (std::uint64_t i = 0; i < 20; ++i) {
    const std::size_t bytes = i % 2 == 0 ? 50 : 3 * from.limits().chunk_bytes;
    background sender(from.get_executor(), send_pattern(from, 2, bytes, i));
    co_await recv_pattern(to, 2, bytes, i);
    co_await sender.result();
  }
  EXPECT_FALSE(blocked.is_over());
  EXPECT_FALSE(ignored.back().is_over());
  EXPECT_GT(to.stats().unexpected_bytes_peak, 0u);
  EXPECT_LE(to.stats().unexpected_bytes_peak, with.credit_bytes);
  // Nothing was lost.
  for (std::uint64_t i = 0; i < 1000; ++i) co_await recv_pattern(to, 3, short_bytes, i);
  co_await recv_pattern(to, 1, long_bytes, 1);
  co_await blocked.result();
  for (background& sender : ignored) co_await sender.result();
  EXPECT_EQ(to.stats().unexpected_bytes, 0u);
}

CHANNEL_TEST(unread_flows_do_not_delay_others, settings{}) {
  co_await leave_two_flows_unread(from, to, std::size_t{16} << 20, 1500, settings{});
}

CHANNEL_TEST(unread_flows_with_small_credits, small_settings()) {
  co_await leave_two_flows_unread(from, to, 100'000, 200, small_settings());
}

/// A short message overtakes a long one in transfer.
CHANNEL_TEST(short_message_overtakes_a_long_one, small_settings()) {
  constexpr std::size_t long_bytes = std::size_t{8} << 20;
  background sender(from.get_executor(), send_pattern(from, 1, long_bytes, 1));
  background receiver(to.get_executor(), recv_pattern(to, 1, long_bytes, 1));
  for (std::uint64_t i = 0; i < 20; ++i) {
    background short_send(from.get_executor(), send_pattern(from, 2, 64, i));
    co_await recv_pattern(to, 2, 64, i);
    co_await short_send.result();
  }
  co_await receiver.result();
  co_await sender.result();
}

CHANNEL_TEST(many_flows_many_messages, small_settings()) {
  std::vector<background> parts;
  for (flow_id flow = 0; flow < 60; ++flow) {
    for (std::uint64_t i = 0; i < 10; ++i) {
      const std::size_t bytes = (flow * 97 + i * 501) % 4000;
      parts.emplace_back(from.get_executor(), send_pattern(from, flow, bytes, flow * 1000 + i));
    }
  }
  for (flow_id flow = 60; flow-- > 0;) {
    for (std::uint64_t i = 0; i < 10; ++i) {
      const std::size_t bytes = (flow * 97 + i * 501) % 4000;
      co_await recv_pattern(to, flow, bytes, flow * 1000 + i);
    }
  }
  for (background& part : parts) co_await part.result();
}

CHANNEL_TEST(any_flow_number, settings{}) {
  for (const flow_id flow : {0u, 1u, 65535u, 65536u, 0x80000000u, 0xffffffffu}) {
    background sender(from.get_executor(), send_pattern(from, flow, 200'000, flow));
    co_await recv_pattern(to, flow, 200'000, flow);
    co_await sender.result();
  }
}

static settings four_flows() {
  settings s = small_settings();
  s.max_flows = 4;
  return s;
}

CHANNEL_TEST(too_many_flows, four_flows()) {
  for (flow_id flow = 0; flow < 4; ++flow) co_await expect_usable(from, to, flow);
  const auto of_send = co_await failure_of(from.send(4, const_view()));
  expect_error(of_send, errc::limit_exceeded, {"flow 4", "max-flows 4"});
  const auto of_recv = co_await failure_of(to.recv(4, mutable_view()));
  expect_error(of_recv, errc::limit_exceeded, {"flow 4", "max-flows 4"});
  co_await expect_usable(from, to);
}

/// Receives on flows that the peer never uses must not turn its own flows into a violation.
CHANNEL_TEST(flows_of_one_side_only, four_flows()) {
  std::vector<background> idle;
  for (flow_id flow = 10; flow < 14; ++flow) {
    idle.emplace_back(to.get_executor(), to.recv(flow, mutable_view()));
  }
  co_await turns(1);
  co_await send_pattern(from, 1, 50, 1);
  co_await until_unexpected(to, 50);
  co_await recv_pattern(to, 1, 50, 1);
  for (background& receiver : idle) {
    receiver.cancel();
    const auto failure = co_await receiver.failure();
    expect_aborted(failure);
  }
}

}  // namespace tandem::test
