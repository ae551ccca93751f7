#include <gtest/gtest.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/async.hpp>

#include "support/coroutine_test.hpp"

namespace tandem::test {
namespace {

awaitable<void> never_ends(bool& ended) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  asio::steady_timer never(executor, asio::steady_timer::time_point::max());
  try {
    co_await never.async_wait(asio::use_awaitable);
  } catch (const boost::system::system_error&) {
    ended = true;
    throw;
  }
}

awaitable<void> passes() {
  bool ended = false;
  const auto failure =
      co_await failure_of(with_deadline(20ms, never_ends(ended), "asking rank 3", "wake it"));
  expect_error(failure, errc::timed_out, {"asking rank 3", "not done within 0.02 s", "; wake it"});
  EXPECT_EQ(failure->context().phase, "asking rank 3");
  EXPECT_EQ(failure->context().advice, "wake it");
  EXPECT_TRUE(ended) << "the work was still queued";
}

TEST(deadline, expires) {
  run_test(passes());
}

awaitable<void> in_time() {
  co_await with_deadline(1h, turns(3), "work");
  co_await with_deadline(1h, turns(0), "work");
  const auto failing = []() -> awaitable<void> {
    co_await turns(1);
    throw error(errc::bad_input, "its own");
  };
  const auto failure = co_await failure_of(with_deadline(1h, failing(), "work"));
  expect_error(failure, errc::bad_input, {"its own"});
}

TEST(deadline, has_no_effect_on_completion_in_time) {
  run_test(in_time());
}

awaitable<void> zero() {
  bool ended = false;
  const auto failure = co_await failure_of(with_deadline(0s, never_ends(ended), "work"));
  expect_error(failure, errc::timed_out, {"within 0 s"});
}

TEST(deadline, of_zero_duration) {
  run_test(zero());
}

awaitable<void> cancelled() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  bool ended = false;
  background part(executor, with_deadline(1h, never_ends(ended), "work"));
  co_await turns(2);
  part.cancel();
  const auto failure = co_await part.failure();
  expect_aborted(failure);
  EXPECT_TRUE(ended);
}

TEST(deadline, forwards_cancellation) {
  run_test(cancelled());
}

awaitable<void> nested() {
  bool ended = false;
  auto inner = with_deadline(10ms, never_ends(ended), "inner");
  const auto failure = co_await failure_of(with_deadline(1h, std::move(inner), "outer"));
  expect_error(failure, errc::timed_out, {"inner"});
  auto patient = with_deadline(1h, never_ends(ended), "inner");
  const auto other = co_await failure_of(with_deadline(10ms, std::move(patient), "outer"));
  expect_error(other, errc::timed_out, {"outer"});
}

TEST(deadline, nests) {
  run_test(nested());
}

/// Work that completes successfully despite the cancellation has succeeded.
awaitable<void> too_late_to_stop() {
  const auto ignores_cancellation = []() -> awaitable<void> {
    bool ended = false;
    try {
      co_await never_ends(ended);
    } catch (const boost::system::system_error&) {
    }
    EXPECT_TRUE(ended);
  };
  co_await with_deadline(10ms, ignores_cancellation(), "work");
}

TEST(deadline, late_success_is_success) {
  run_test(too_late_to_stop());
}

}  // namespace
}  // namespace tandem::test
