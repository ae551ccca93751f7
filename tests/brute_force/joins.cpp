// Joins, deadlines and conditions without any channel, stopped after each handler.

#include <gtest/gtest.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/async.hpp>

#include "brute_force/stepping.hpp"

namespace tandem::test {
namespace {

awaitable<void> fails_after(int count) {
  co_await turns(count);
  throw error(errc::bad_input, "on purpose");
}

awaitable<void> never() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  async_condition nothing(executor);
  co_await nothing.wait();
}

awaitable<void> waits_for(std::shared_ptr<async_condition> what) {
  co_await what->wait();
}
awaitable<void> notifies(std::shared_ptr<async_condition> what) {
  co_await turns(3);
  what->notify_all();
}

awaitable<void> tree(int depth) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  std::vector<awaitable<void>> branches;
  const auto changed = std::make_shared<async_condition>(executor);
  branches.push_back(turns(depth + 1));
  branches.push_back(waits_for(changed));
  branches.push_back(notifies(changed));
  branches.push_back(with_deadline(1h, turns(2), "turns"));
  if (depth > 0) branches.push_back(with_deadline(1h, tree(depth - 1), "tree"));
  co_await when_all(std::move(branches));
}

awaitable<void> failing_tree() {
  std::vector<awaitable<void>> inner, outer;
  inner.push_back(never());
  inner.push_back(fails_after(3));
  inner.push_back(with_deadline(1h, never(), "never"));
  outer.push_back(when_all(std::move(inner)));
  outer.push_back(with_deadline(1ms, never(), "never"));
  outer.push_back(tree(1));
  const auto outcomes = co_await collect_all(std::move(outer));
  EXPECT_TRUE(outcomes[0] && outcomes[1]);
  EXPECT_FALSE(outcomes[2]);
}

awaitable<void> small_tree() {
  return tree(2);
}

constexpr awaitable<void> (*scenarios[])() = {small_tree, failing_tree};

TEST(brute_force_joins, stopped_by_destroying_the_loop) {
  for (const auto make : scenarios) {
    for (std::uint64_t steps = 0;; steps = next_stop(steps)) {
      stepping loop;
      loop.start(make());
      loop.step(steps);
      if (!loop.is_over()) continue;
      EXPECT_FALSE(loop.failure());
      break;
    }
  }
}

TEST(brute_force_joins, stopped_by_cancelling) {
  for (std::uint64_t steps = 0;; steps = next_stop(steps)) {
    SCOPED_TRACE("after " + std::to_string(steps) + " steps");
    stepping loop;
    loop.start(small_tree());
    loop.step(steps);
    if (loop.is_over()) break;
    loop.cancel();
    ASSERT_TRUE(loop.finish()) << "still waiting after it was cancelled";
    if (loop.failure()) expect_aborted(loop.failure());
  }
}

}  // namespace
}  // namespace tandem::test
