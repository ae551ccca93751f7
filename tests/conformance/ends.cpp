// How channels end: closed by either end, failed, or destroyed.

#include <boost/asio/use_awaitable.hpp>

#include "support/channel_case.hpp"
#include "support/pending_operation.hpp"

namespace tandem::test {

/// Operations of every kind, none of which can complete by itself.
struct pending_set {
  explicit pending_set(channel& on) {
    const auto executor = on.get_executor();
    parts.emplace_back(executor, on.recv(0, buffers[0]));
    parts.emplace_back(executor, on.recv(0, buffers[1]));
    parts.emplace_back(executor, on.send(1, buffers[2]));                               // announced
    for (int i = 0; i < 20; ++i) parts.emplace_back(executor, on.send(2, buffers[3]));  // waiting
  }
  std::vector<std::vector<std::byte>> buffers{4, std::vector<std::byte>(5000, untouched)};
  std::vector<background> parts;
};

CHANNEL_TEST(close_with_pending_operations, small_settings()) {
  pending_set local(from);
  pending_set remote(to);
  co_await turns(5);
  from.close();
  for (background& part : local.parts) {
    const auto failure = co_await part.failure();
    expect_error(failure, errc::channel_closed, {"closed"});
  }
  for (background& part : remote.parts) {
    const auto failure = co_await part.failure();
    expect_error(failure, errc::peer_closed, {"the peer has closed"});
  }
  co_await turns(20);
  for (const auto& bytes : local.buffers) {
    EXPECT_EQ(bytes, std::vector<std::byte>(5000, untouched));
  }
  for (const auto& bytes : remote.buffers) {
    EXPECT_EQ(bytes, std::vector<std::byte>(5000, untouched));
  }
}

CHANNEL_TEST(operations_after_close, settings{}) {
  from.close();
  from.close();
  const auto of_send = co_await failure_of(send_pattern(from, 0, 10, 1));
  expect_error(of_send, errc::channel_closed);
  const auto of_recv = co_await failure_of(recv_pattern(from, 0, 10, 1));
  expect_error(of_recv, errc::channel_closed);
  from.close();
  const auto there = co_await failure_of(recv_pattern(to, 0, 10, 1));
  expect_error(there, errc::peer_closed);
  const auto back = co_await failure_of(send_pattern(to, 0, 10, 1));
  expect_error(back, errc::peer_closed);
  to.close();
  const auto closed = co_await failure_of(recv_pattern(to, 0, 10, 1));
  expect_error(closed, errc::channel_closed);
}

CHANNEL_TEST(messages_before_the_close_are_received, settings{}) {
  for (std::uint64_t i = 0; i < 5; ++i) co_await send_pattern(from, 0, 100 * i, i);
  from.close();
  const auto after = co_await failure_of(to.recv(9, mutable_view()));  // the close frame arrived
  expect_error(after, errc::peer_closed);
  for (std::uint64_t i = 0; i < 5; ++i) co_await recv_pattern(to, 0, 100 * i, i);
  const auto none_left = co_await failure_of(to.recv(0, mutable_view()));
  expect_error(none_left, errc::peer_closed);
}

/// Whatever is in transfer: nothing hangs, both ends get an error, no buffer is accessed
/// afterwards.
CHANNEL_TEST(close_in_mid_transfer, small_settings()) {
  constexpr std::size_t bytes = std::size_t{16} << 20;
  std::vector<std::byte> message = pattern(bytes, 1);
  std::vector<std::byte> into(bytes, untouched);
  background receiver(to.get_executor(), to.recv(0, into));
  background sender(from.get_executor(), from.send(0, message));
  co_await turns(3);
  from.close();
  const auto of_send = co_await sender.failure();
  std::fill(message.begin(), message.end(), std::byte{0});
  if (of_send) expect_error(of_send, errc::channel_closed);
  const auto of_recv = co_await receiver.failure();
  if (!of_recv) {
    EXPECT_EQ(first_wrong(into, 1), std::nullopt);
    co_return;
  }
  expect_error(of_recv, errc::peer_closed, {"the peer has closed"});
  const std::vector<std::byte> kept = into;
  co_await turns(20);
  EXPECT_EQ(into, kept);
}

CHANNEL_TEST(close_of_the_receiver_in_mid_transfer, small_settings()) {
  constexpr std::size_t bytes = std::size_t{16} << 20;
  std::vector<std::byte> into(bytes, untouched);
  background receiver(to.get_executor(), to.recv(0, into));
  background sender(from.get_executor(), send_pattern(from, 0, bytes, 1));
  co_await turns(3);
  to.close();
  const auto of_recv = co_await receiver.failure();
  const std::vector<std::byte> kept = into;
  const auto of_send = co_await sender.failure();
  co_await turns(20);
  EXPECT_EQ(into, kept);
  if (of_recv) expect_error(of_recv, errc::channel_closed);
  if (of_send) expect_error(of_send, errc::peer_closed, {"the peer has closed"});
}

CHANNEL_TEST(close_inside_a_completion, settings{}) {
  struct closing : pending_operation {
    using pending_operation::pending_operation;
    static void close_it(operation& op) {
      auto& self = static_cast<closing&>(op);
      ++self.completions;
      self.channel_.close();
      self.ended.notify_all();
    }
  };
  std::vector<std::byte> into(10);
  closing op(to, operation::kind::recv, 0, into);
  op.complete = closing::close_it;
  background other(to.get_executor(), to.recv(0, mutable_view()));
  co_await turns(1);
  other.cancel();
  co_await other.failure();
  EXPECT_FALSE(op.start());
  background behind(to.get_executor(), to.recv(1, mutable_view()));
  co_await send_pattern(from, 0, 10, 1);
  co_await op.wait();
  EXPECT_FALSE(op.result);
  const auto failure = co_await behind.failure();
  expect_error(failure, errc::channel_closed);
}

CHANNEL_TEST(failing_with_a_reason, settings{}) {
  background local(from.get_executor(), from.recv(0, mutable_view()));
  background remote(to.get_executor(), to.recv(0, mutable_view()));
  co_await turns(2);
  from.fail(error(errc::call_mismatch, "ranks made different calls", "look at rank 3"));
  from.close();  // the first reason is kept
  const auto of_local = co_await local.failure();
  expect_error(of_local, errc::call_mismatch, {"ranks made different calls", "look at rank 3"});
  const auto later = co_await failure_of(from.send(0, const_view()));
  expect_error(later, errc::call_mismatch, {"ranks made different calls"});
  const auto of_remote = co_await remote.failure();
  EXPECT_TRUE(of_remote &&
              (of_remote->code() == errc::peer_closed || of_remote->code() == errc::call_mismatch));
}

static awaitable<void> destroy_with_pending(std::unique_ptr<channel> from,
                                            std::unique_ptr<channel> to) {
  pending_set local(*from);
  pending_set remote(*to);
  co_await turns(5);
  from.reset();
  for (background& part : local.parts) {
    const auto failure = co_await part.failure();
    expect_error(failure, errc::channel_closed);
  }
  for (background& part : remote.parts) {
    const auto failure = co_await part.failure();
    expect_error(failure, errc::peer_closed);
  }
  to.reset();
  co_await turns(5);
}
TEST_P(channel_test, destroy_with_pending_operations) {
  both_ways(destroy_with_pending, small_settings());
}

/// Ended operations whose completions were not delivered yet outlive their channel.
static awaitable<void> destroy_and_cancel(std::unique_ptr<channel> from, std::unique_ptr<channel>) {
  pending_set local(*from);
  co_await turns(5);
  from.reset();
  for (background& part : local.parts) part.cancel();
  for (background& part : local.parts) {
    const auto failure = co_await part.failure();
    EXPECT_TRUE(failure);
  }
}
TEST_P(channel_test, cancel_after_the_channel_is_gone) {
  both_ways(destroy_and_cancel, small_settings());
}

}  // namespace tandem::test
