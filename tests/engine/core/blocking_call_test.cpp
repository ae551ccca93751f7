#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/error.hpp>
#include <thread>

namespace tandem::detail {
namespace {

using namespace std::chrono_literals;

/// A call that returns on `release`.
struct held_call {
  std::shared_ptr<std::promise<void>> end = std::make_shared<std::promise<void>>();
  auto work() const {
    return [until = end->get_future().share()] {
      until.wait();
      return 1;
    };
  }
  void release() const { end->set_value(); }
};

/// Waits until nothing is left of the calls of a test.
void expect_none_left() {
  while (abandoned_calls() > 0) std::this_thread::sleep_for(1ms);
}

TEST(blocking_call, gives_results_and_errors_in_time) {
  EXPECT_EQ(call_within(1h, [] { return std::string("answer"); }), "answer");
  EXPECT_THROW(call_within(1h, []() -> int { throw std::runtime_error("no"); }),
               std::runtime_error);
  EXPECT_EQ(abandoned_calls(), 0);
}

TEST(blocking_call, is_given_up_at_the_limit) {
  const held_call call;
  EXPECT_FALSE(call_within(10ms, call.work()));
  EXPECT_EQ(abandoned_calls(), 1);
  call.release();
  expect_none_left();
}

TEST(blocking_call, thread_blocks_signals) {
  const std::optional<bool> blocked = call_within(1h, [] {
    sigset_t mask;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    return ::sigismember(&mask, SIGTERM) == 1;
  });
  EXPECT_EQ(blocked, true);
}

/// Does something when a thread ends, as libraries do with what they keep per thread.
struct at_thread_end {
  ~at_thread_end() {
    if (what) what();
  }
  std::function<void()> what;
};

TEST(blocking_call, leaves_no_thread_that_is_still_ending) {
  const auto has_ended = std::make_shared<std::atomic<bool>>(false);
  const auto answer = call_within(1h, [has_ended] {
    thread_local at_thread_end ending;
    ending.what = [has_ended] {
      std::this_thread::sleep_for(50ms);
      has_ended->store(true);
    };
    return 1;
  });
  EXPECT_EQ(answer, 1);
  EXPECT_TRUE(has_ended->load());
}

TEST(blocking_call, answers_where_the_thread_does_not_end) {
  const held_call call;
  const auto ended = std::make_shared<std::promise<void>>();
  const auto answer = call_within(200ms, [block = call.work(), ended] {
    thread_local at_thread_end ending;
    ending.what = [block, ended] {
      block();
      ended->set_value();
    };
    return 1;
  });
  EXPECT_EQ(answer, 1);
  EXPECT_EQ(abandoned_calls(), 0);
  call.release();
  ended->get_future().wait();
}

TEST(blocking_call, drivers_that_hang_do_not_add_up) {
  const std::chrono::milliseconds before = driver_timeout();
  set_driver_timeout(5s);
  EXPECT_EQ(driver_timeout(), 5s);
  const held_call call;
  EXPECT_FALSE(call_within(1ms, call.work()));
  EXPECT_EQ(driver_timeout(), 500ms);
  call.release();
  expect_none_left();
  EXPECT_EQ(driver_timeout(), 5s);
  set_driver_timeout(before);
}

TEST(blocking_call, error_names_what_was_waited_for) {
  const error late = no_answer("secret file /mnt/x", 2s, "is it on a mount?");
  EXPECT_EQ(late.code(), errc::timed_out);
  EXPECT_NE(std::string(late.what()).find("secret file /mnt/x: no answer within 2 s"),
            std::string::npos)
      << late.what();
}

}  // namespace
}  // namespace tandem::detail
