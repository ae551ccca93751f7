#include <gtest/gtest.h>

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/async.hpp>

#include "support/coroutine_test.hpp"

namespace tandem::test {
namespace {

awaitable<void> wait_and_count(async_condition& of, int& woken) {
  co_await of.wait();
  ++woken;
}

awaitable<void> wakes_all() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  async_condition changed(executor);
  int woken = 0;
  changed.notify_all();  // no waiter: has no effect
  std::vector<background> waiting;
  for (int i = 0; i < 5; ++i) waiting.emplace_back(executor, wait_and_count(changed, woken));
  co_await turns(3);
  EXPECT_EQ(woken, 0);
  changed.notify_all();
  for (background& part : waiting) co_await part.result();
  EXPECT_EQ(woken, 5);
  background again(executor, wait_and_count(changed, woken));
  co_await turns(3);
  EXPECT_EQ(woken, 5);
  changed.notify_all();
  co_await again.result();
}

TEST(async_condition, wakes_all_waiters) {
  run_test(wakes_all());
}

awaitable<void> cancels_one() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  async_condition changed(executor);
  int woken = 0;
  background first(executor, wait_and_count(changed, woken));
  background second(executor, wait_and_count(changed, woken));
  co_await turns(2);
  first.cancel();
  const auto failure = co_await first.failure();
  expect_aborted(failure);
  EXPECT_EQ(woken, 0);
  changed.notify_all();
  co_await second.result();
  EXPECT_EQ(woken, 1);
}

TEST(async_condition, cancellation_ends_one_wait) {
  run_test(cancels_one());
}

}  // namespace
}  // namespace tandem::test
