#include <gtest/gtest.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <stdexcept>
#include <tandem/async.hpp>

#include "support/coroutine_test.hpp"

namespace tandem::test {
namespace {

awaitable<void> nothing() {
  co_return;
}
awaitable<void> after(int turn_count, int& done) {
  co_await turns(turn_count);
  ++done;
}
awaitable<void> throws(int turn_count, std::string what) {
  co_await turns(turn_count);
  throw error(errc::bad_input, what);
}
/// Completes only after it is cancelled, and only some iterations later, like an operation that a
/// NIC still uses.
awaitable<void> waits_for_ever(int& ended) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  asio::steady_timer never(executor, asio::steady_timer::time_point::max());
  bool cancelled = false;
  try {
    co_await never.async_wait(asio::use_awaitable);
  } catch (const boost::system::system_error&) {
    cancelled = true;
  }
  co_await asio::this_coro::reset_cancellation_state();
  co_await turns(3);
  ++ended;
  if (cancelled) throw boost::system::system_error(asio::error::operation_aborted);
}

std::vector<awaitable<void>> list(awaitable<void> a, awaitable<void> b, awaitable<void> c) {
  std::vector<awaitable<void>> all;
  all.push_back(std::move(a));
  all.push_back(std::move(b));
  all.push_back(std::move(c));
  return all;
}

awaitable<void> all_succeed() {
  int done = 0;
  co_await when_all(list(after(3, done), nothing(), after(1, done)));
  EXPECT_EQ(done, 2);
  co_await when_all({});
  const auto none = co_await collect_all({});
  EXPECT_TRUE(none.empty());
  co_await when_all(list(nothing(), nothing(), nothing()));
}

TEST(when_all, returns_when_all_are_over) {
  run_test(all_succeed());
}

awaitable<void> first_failure() {
  int ended = 0;
  const auto failure = co_await failure_of(
      when_all(list(waits_for_ever(ended), throws(2, "first"), waits_for_ever(ended))));
  expect_error(failure, errc::bad_input, {"first"});
  EXPECT_EQ(ended, 2) << "it returned before the others had ended";
}

TEST(when_all, first_failure_cancels_the_rest_and_is_thrown_last) {
  run_test(first_failure());
}

awaitable<void> immediate_failures() {
  int ended = 0;
  const auto failure = co_await failure_of(
      when_all(list(throws(0, "at once"), throws(0, "later"), waits_for_ever(ended))));
  expect_error(failure, errc::bad_input, {"at once"});
  EXPECT_EQ(ended, 1);
  const auto all_fail =
      co_await failure_of(when_all(list(throws(1, "a"), throws(1, "b"), throws(1, "c"))));
  expect_error(all_fail, errc::bad_input, {"a"});
}

TEST(when_all, fails_at_once) {
  run_test(immediate_failures());
}

awaitable<void> gathered() {
  int done = 0;
  const auto outcomes = co_await collect_all(list(after(4, done), throws(1, "no"), after(2, done)));
  EXPECT_EQ(outcomes.size(), 3u);
  EXPECT_FALSE(outcomes[0]);
  EXPECT_FALSE(outcomes[2]);
  EXPECT_EQ(done, 2) << "a failure cancelled others";
  expect_error(as_error(outcomes[1]), errc::bad_input, {"no"});
}

TEST(collect_all, collects_every_outcome) {
  run_test(gathered());
}

awaitable<void> cancelled_from_outside(bool keep_all) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  int ended = 0;
  const auto joined = [](bool keep, int& count) -> awaitable<void> {
    auto branches = list(waits_for_ever(count), waits_for_ever(count), waits_for_ever(count));
    if (keep) {
      co_await collect_all(std::move(branches));
    } else {
      co_await when_all(std::move(branches));
    }
  };
  background part(executor, joined(keep_all, ended));
  co_await turns(3);
  part.cancel();
  EXPECT_FALSE(part.is_over()) << "it did not wait for its branches";
  const auto failure = co_await part.failure();
  EXPECT_EQ(ended, 3);
  if (!keep_all) expect_aborted(failure);
}

TEST(when_all, forwards_cancellation) {
  run_test(cancelled_from_outside(false));
}
TEST(collect_all, forwards_cancellation) {
  run_test(cancelled_from_outside(true));
}

/// Completes inside the cancellation, so that the join completes in the middle of it.
struct ends_when_cancelled {
  template <class Handler>
  void operator()(Handler handler) const {
    auto slot = asio::get_associated_cancellation_slot(handler);
    auto shared = std::make_shared<Handler>(std::move(handler));
    slot.assign([shared](asio::cancellation_type) {
      const auto h = std::move(*shared);
      const_cast<Handler&>(h)(error_code(asio::error::operation_aborted));
    });
  }
};

awaitable<void> immediate_end() {
  co_await asio::async_initiate<const asio::use_awaitable_t<>&, void(error_code)>(
      ends_when_cancelled{}, asio::use_awaitable);
}

awaitable<void> ends_while_cancelling() {
  const auto failure =
      co_await failure_of(when_all(list(throws(2, "why"), immediate_end(), immediate_end())));
  expect_error(failure, errc::bad_input, {"why"});
}

TEST(when_all, may_complete_during_cancellation) {
  run_test(ends_while_cancelling());
}

/// A branch that cancels its own join when it starts, while another branch has not started yet.
awaitable<void> stops(std::unique_ptr<background>& outer) {
  outer->cancel();
  co_return;
}

awaitable<void> join_that_stops_itself(std::unique_ptr<background>& outer, int& ended) {
  co_await turns(1);
  co_await when_all(list(stops(outer), waits_for_ever(ended), nothing()));
}

awaitable<void> cancelled_while_starting() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  int ended = 0;
  std::unique_ptr<background> outer;
  outer = std::make_unique<background>(executor, join_that_stops_itself(outer, ended));
  const auto failure = co_await outer->failure();
  expect_aborted(failure);
}

TEST(when_all, may_be_cancelled_while_it_starts) {
  run_test(cancelled_while_starting());
}

awaitable<void> nest(int depth, int& leaves) {
  if (depth == 0) {
    co_await turns(2);
    ++leaves;
    co_return;
  }
  co_await when_all(
      list(nest(depth - 1, leaves), nest(depth - 1, leaves), nest(depth - 1, leaves)));
}

TEST(when_all, nests) {
  int leaves = 0;
  run_test(nest(5, leaves));
  EXPECT_EQ(leaves, 243);
}

awaitable<void> other_exceptions() {
  const auto throwing = []() -> awaitable<void> {
    co_await turns(1);
    throw std::logic_error("not of ours");
  };
  std::string text;
  try {
    co_await when_all(list(throwing(), nothing(), nothing()));
  } catch (const std::logic_error& e) {
    text = e.what();
  }
  EXPECT_EQ(text, "not of ours");
}

TEST(when_all, keeps_the_type_of_an_exception) {
  run_test(other_exceptions());
}

awaitable<int> gives(int turn_count, int value) {
  co_await turns(turn_count);
  co_return value;
}
awaitable<std::unique_ptr<std::string>> gives_text(int turn_count) {
  co_await turns(turn_count);
  co_return std::make_unique<std::string>("moved only");
}
awaitable<int> throws_instead(int turn_count) {
  co_await throws(turn_count, "no value");
  co_return 0;
}

awaitable<void> returns_the_results_of_its_branches() {
  std::vector<awaitable<int>> branches;
  for (int i = 0; i < 5; ++i) branches.push_back(gives(5 - i, 10 + i));
  const std::vector<int> values = co_await when_all(std::move(branches));
  EXPECT_EQ(values, (std::vector<int>{10, 11, 12, 13, 14}));
  const std::vector<int> none = co_await when_all(std::vector<awaitable<int>>());
  EXPECT_TRUE(none.empty());
}

TEST(when_all, returns_the_results_of_its_branches) {
  run_test(returns_the_results_of_its_branches());
}

awaitable<void> of_different_results() {
  auto all = when_all(gives(3, 7), gives_text(1), turns(2));
  const auto found = co_await std::move(all);
  EXPECT_EQ(std::get<0>(found), 7);
  EXPECT_EQ(*std::get<1>(found), "moved only");
}

TEST(when_all, of_different_results) {
  run_test(of_different_results());
}

awaitable<void> throws_where_a_result_is_missing() {
  int ended = 0;
  auto all = when_all(gives(1, 7), throws_instead(2), waits_for_ever(ended));
  std::string text;
  try {
    co_await std::move(all);
  } catch (const error& failure) {
    text = failure.what();
  }
  EXPECT_NE(text.find("no value"), std::string::npos) << text;
  EXPECT_EQ(ended, 1);
}

TEST(when_all, throws_where_a_result_is_missing) {
  run_test(throws_where_a_result_is_missing());
}

awaitable<void> returns_the_result_of_the_work() {
  const int value = co_await with_deadline(5s, gives(2, 42), "a test");
  EXPECT_EQ(value, 42);
  std::unique_ptr<std::string> text = co_await with_deadline(5s, gives_text(1), "a test");
  EXPECT_EQ(*text, "moved only");
}

TEST(with_deadline, returns_the_result_of_the_work) {
  run_test(returns_the_result_of_the_work());
}

}  // namespace
}  // namespace tandem::test
