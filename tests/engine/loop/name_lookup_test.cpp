#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <tandem/detail/name_lookup.hpp>

#include "support/coroutine_test.hpp"

namespace tandem::test {
namespace {

awaitable<void> resolves_localhost() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  detail::name_lookup question(executor, "localhost");
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  const std::optional<detail::name_addresses> first = co_await question.until(deadline);
  EXPECT_TRUE(first && !first->found.empty());
  if (first && !first->found.empty()) {
    EXPECT_TRUE(first->found.front().is_loopback());
  }
  // The answer stays.
  const std::optional<detail::name_addresses> again = co_await question.until(deadline);
  EXPECT_TRUE(again && first && again->found == first->found);
  EXPECT_TRUE(question.answer());
}

TEST(name_lookup, resolves_localhost) {
  run_test(resolves_localhost());
}

awaitable<void> ends_at_the_deadline() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  // Even a deadline that has passed lets the caller go on, with an answer or without one.
  detail::name_lookup question(executor, "localhost");
  co_await question.until(std::chrono::steady_clock::now() - 1s);
}

TEST(name_lookup, ends_at_the_deadline) {
  run_test(ends_at_the_deadline());
}

TEST(name_lookup, is_destroyed_before_and_after_its_answer) {
  for (int i = 0; i < 20; ++i) {
    asio::io_context context(1);
    const detail::name_lookup question(context.get_executor(), "localhost");
    if (i % 2 == 0) continue;
    while (!question.answer()) std::this_thread::yield();
  }
}

TEST(name_lookup, numbers_and_unknown_names) {
  const detail::name_addresses mapped = detail::resolve_now("::ffff:10.0.0.1");
  ASSERT_EQ(mapped.found.size(), 1u);
  EXPECT_EQ(mapped.found.front().to_string(), "10.0.0.1");
  const detail::name_addresses none = detail::resolve_now("not a name");
  EXPECT_TRUE(none.found.empty());
  EXPECT_FALSE(none.why_none.empty());
}

}  // namespace
}  // namespace tandem::test
