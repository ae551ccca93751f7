// The interface below coroutines, and every completion token on top of it.

#include <boost/asio/deferred.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <future>
#include <tandem/async.hpp>
#include <thread>

#include "support/channel_case.hpp"
#include "support/pending_operation.hpp"

namespace tandem::test {

CHANNEL_TEST(completion_is_called_once_and_later, settings{}) {
  std::vector<std::byte> into(10);
  pending_operation receive(to, operation::kind::recv, 0, into);
  EXPECT_FALSE(receive.start());
  EXPECT_EQ(receive.at, operation::phase::queued);
  co_await send_pattern(from, 0, 10, 1);
  co_await receive.wait();
  co_await turns(10);
  EXPECT_EQ(receive.completions, 1);
  EXPECT_FALSE(receive.was_inside_start);
  EXPECT_EQ(receive.at, operation::phase::done);
  EXPECT_EQ(receive.bytes, 10u);
  EXPECT_FALSE(receive.result);
  EXPECT_FALSE(receive.failure);
  EXPECT_EQ(first_wrong(into, 1), std::nullopt);
  receive.cancel();  // too late, no effect
  co_await turns(5);
  EXPECT_EQ(receive.completions, 1);
}

static awaitable<void> receive_arrived_message(channel& from, channel& to) {
  co_await send_pattern(from, 0, 10, 1);
  co_await until_unexpected(to, 10);
  std::vector<std::byte> into(10);
  pending_operation receive(to, operation::kind::recv, 0, into);
  EXPECT_TRUE(receive.start());
  EXPECT_EQ(receive.bytes, 10u);
  co_await turns(5);
  EXPECT_EQ(receive.completions, 0) << "an operation that completed in start completes once";
}
TEST_P(channel_test, an_arrived_message_completes_in_start) {
  if (!GetParam().is_host) GTEST_SKIP() << "views of devices are filled later";
  both_ways(receive_arrived_message, settings{});
}

CHANNEL_TEST(an_operation_may_be_used_again, small_settings()) {
  std::vector<std::byte> message = pattern(3000, 1);
  std::vector<std::byte> into(3000);
  pending_operation send(from, operation::kind::send, 0, message);
  pending_operation receive(to, operation::kind::recv, 0, into);
  for (int i = 0; i < 20; ++i) {
    std::fill(into.begin(), into.end(), std::byte{0});
    send.completions = receive.completions = 0;
    send.start();
    receive.start();
    co_await receive.wait();
    co_await send.wait();
    EXPECT_FALSE(send.result);
    EXPECT_FALSE(receive.result);
    EXPECT_EQ(first_wrong(into, 1), std::nullopt);
  }
}

/// Nothing is written, both ends learn the other's signature, and the flow stays usable.
static awaitable<void> expect_another_call(channel& from, channel& to, std::size_t bytes,
                                           bool recv_first, bool sender_fails) {
  const call_signature sent{0x1122334455667788, 7}, expected{0x1122334455667788, 8};
  std::vector<std::byte> message = pattern(bytes, 1);
  std::vector<std::byte> into(bytes, std::byte{0xee});
  pending_operation send(from, operation::kind::send, 6, message);
  pending_operation receive(to, operation::kind::recv, 6, into);
  send.signature = sent;
  receive.signature = expected;
  if (recv_first) receive.start();
  send.start();
  if (!recv_first) {
    co_await turns(3);
    receive.start();
  }
  co_await receive.wait();
  co_await send.wait();
  EXPECT_EQ(receive.result, errc::call_mismatch);
  EXPECT_TRUE(receive.peer_signature == sent);
  EXPECT_EQ(std::count(into.begin(), into.end(), std::byte{0xee}),
            static_cast<std::ptrdiff_t>(bytes));
  if (sender_fails) {
    EXPECT_EQ(send.result, errc::call_mismatch);
    EXPECT_TRUE(send.peer_signature == expected);
  } else {
    EXPECT_FALSE(send.result);
  }
  send.signature = receive.signature = expected;
  send.completions = receive.completions = 0;
  receive.start();
  send.start();
  co_await receive.wait();
  co_await send.wait();
  EXPECT_FALSE(receive.result);
  EXPECT_EQ(first_wrong(into, 1), std::nullopt);
}

CHANNEL_TEST(message_of_another_call_eager, settings{}) {
  co_await expect_another_call(from, to, 100, true, false);
  co_await expect_another_call(from, to, 100, false, false);
  co_await expect_another_call(from, to, 0, false, false);
  co_await expect_another_call(from, to, 8, true, false);
  co_await expect_usable(from, to, 6);
}

CHANNEL_TEST(message_of_another_call_announced, small_settings()) {
  co_await expect_another_call(from, to, 5000, true, true);
  co_await expect_another_call(from, to, 5000, false, true);
  co_await expect_usable(from, to, 6);
}

CHANNEL_TEST(completions_come_on_the_channels_thread, small_settings()) {
  struct checking : pending_operation {
    using pending_operation::pending_operation;
    std::thread::id thread;
  };
  std::vector<std::byte> message = pattern(3000, 1);
  std::vector<std::byte> into(3000);
  checking send(from, operation::kind::send, 0, message);
  checking receive(to, operation::kind::recv, 0, into);
  for (checking* op : {&send, &receive}) {
    op->complete = [](operation& o) {
      auto& self = static_cast<checking&>(o);
      self.thread = std::this_thread::get_id();
      ++self.completions;
      self.ended.notify_all();
    };
  }
  EXPECT_FALSE(receive.start());
  send.thread = std::this_thread::get_id();  // may complete in start
  send.start();
  co_await receive.wait();
  co_await send.wait();
  EXPECT_EQ(send.thread, std::this_thread::get_id());
  EXPECT_EQ(receive.thread, std::this_thread::get_id());
}

CHANNEL_TEST(with_a_callback, settings{}) {
  std::vector<std::byte> into(100);
  std::size_t length = 0;
  std::exception_ptr of_recv, of_send = std::make_exception_ptr(1);
  bool is_over = false;
  async(to.get_executor(), to.recv(0, into), [&](std::exception_ptr e, std::size_t n) {
    of_recv = e;
    length = n;
    is_over = true;
  });
  async(from.get_executor(), send_pattern(from, 0, 100, 1),
        [&](std::exception_ptr e) { of_send = e; });
  const auto done = [&] { return is_over && !of_send; };
  co_await until(done, "both callbacks");
  EXPECT_EQ(length, 100u);
  EXPECT_FALSE(of_recv);
  async(from.get_executor(), from.send(0, const_view(into.data(), 1, memory_kind::hip)),
        [&](std::exception_ptr e) { of_send = e; });
  const auto has_failed = [&] { return of_send != nullptr; };
  co_await until(has_failed, "the failure");
  expect_error(as_error(of_send), errc::unsupported_memory);
}

CHANNEL_TEST(with_a_future, settings{}) {
  std::vector<std::byte> into(100);
  std::future<std::size_t> length = async(to.get_executor(), to.recv(0, into), asio::use_future);
  std::future<void> sent =
      async(from.get_executor(), send_pattern(from, 0, 100, 1), asio::use_future);
  const auto ready = [&] {
    return length.wait_for(0s) == std::future_status::ready &&
           sent.wait_for(0s) == std::future_status::ready;
  };
  co_await until(ready, "both futures");
  EXPECT_EQ(length.get(), 100u);
  sent.get();
  EXPECT_EQ(first_wrong(into, 1), std::nullopt);
}

CHANNEL_TEST(with_deferred_and_use_awaitable, settings{}) {
  std::vector<std::byte> into(100);
  auto later = async(to.get_executor(), to.recv(0, into), asio::deferred);
  co_await async(from.get_executor(), send_pattern(from, 0, 100, 1), asio::use_awaitable);
  const std::size_t length = co_await std::move(later)(asio::use_awaitable);
  EXPECT_EQ(length, 100u);
  EXPECT_EQ(first_wrong(into, 1), std::nullopt);
}

}  // namespace tandem::test
