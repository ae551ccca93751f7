// Polling rounds of a loop over links that are always ready, and its other handlers.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <functional>
#include <tandem/async.hpp>
#include <tandem/detail/event_loop.hpp>
#include <tandem/detail/poller.hpp>

namespace tandem {
namespace {

using namespace std::chrono_literals;

class busy_link final : public pollable {
 public:
  busy_link(asio::io_context& context, std::function<void()> found)
      : pollable(context.get_executor()), found_(std::move(found)) {}
  int polls = 0;

 private:
  bool poll() override {
    ++polls;
    found_();
    return true;
  }
  void arm() override {}

  const std::function<void()> found_;
};

constexpr spin_policy alone{.max_spin = 1ms, .crowded = false};

/// Number of polls between posting a handler and running it; the handler stops the loop.
int polls_until_handled(std::chrono::microseconds each, spin_policy policy = alone) {
  asio::io_context context{1};
  const auto work = asio::make_work_guard(context);
  int until = -1;
  busy_link* all = nullptr;
  const auto found = [&] {
    const auto end = std::chrono::steady_clock::now() + each;
    while (std::chrono::steady_clock::now() < end) continue;
    if (all->polls != 1) return;
    asio::post(context, [&] {
      until = all->polls - 1;
      context.stop();
    });
  };
  busy_link link(context, found);
  all = &link;
  run(context, policy);
  return until;
}

/// Fewer if this thread is preempted in between, never more.
TEST(rounds, short_rounds_repeat) {
  int max_polls = 0;
  for (int i = 0; i < 100; ++i) {
    const int polls = polls_until_handled(0us);
    ASSERT_GE(polls, 0);
    max_polls = std::max(max_polls, polls);
  }
  EXPECT_EQ(max_polls, 3);
}

TEST(rounds, long_rounds_yield) {
  EXPECT_EQ(polls_until_handled(25us), 0);
}

TEST(rounds, yield_when_core_is_contended) {
  EXPECT_EQ(polls_until_handled(0us, {.max_spin = 1ms, .crowded = true}), 0);
}

/// Polls of memory between two polls of the kernel while nothing is ready.
class idle_link final : public pollable {
 public:
  idle_link(asio::io_context& context, poll_cost costs, std::function<void()> on_poll)
      : pollable(context.get_executor(), costs), on_poll_(std::move(on_poll)) {}

 private:
  bool poll() override {
    on_poll_();
    return false;
  }
  void arm() override {}

  const std::function<void()> on_poll_;
};

int memory_polls_per_round(bool expects_completion) {
  asio::io_context context{1};
  const auto work = asio::make_work_guard(context);
  int poll_count = 0, rounds = 0;
  const idle_link memory(context, pollable::poll_cost::memory_read, [&] { ++poll_count; });
  const idle_link kernel(context, pollable::poll_cost::system_call, [&] {
    if (rounds++ == 0) poll_count = 0;
    if (rounds == 3) context.stop();
  });
  if (expects_completion) poller::of(context.get_executor()).expect_completion(true);
  run(context, alone);
  return poll_count / 2;
}

TEST(rounds, are_shorter_while_awaited) {
  const int usual = memory_polls_per_round(false), awaited = memory_polls_per_round(true);
  EXPECT_GT(usual, 50);
  EXPECT_GT(awaited, 4);
  EXPECT_LT(awaited, 24);
}

TEST(rounds, end_with_the_loop) {
  asio::io_context context{1};
  const auto work = asio::make_work_guard(context);
  busy_link link(context, [&] { context.stop(); });
  run(context, alone);
  EXPECT_EQ(link.polls, 1);
}

/// Between its turns the pollables of an `event_loop` stay unarmed.
TEST(event_loop, runs_in_turns) {
  asio::io_context context{1};
  const auto work = asio::make_work_guard(context);
  int polls = 0;
  const idle_link link(context, pollable::poll_cost::system_call, [&] { ++polls; });
  detail::event_loop loop(context, alone);
  std::atomic<bool> done{false};
  asio::post(context, [&] { done = true; });
  loop.run_until(done);
  EXPECT_TRUE(done);

  bool other = false;
  asio::post(context, [&] { other = true; });
  loop.run_until(done);
  EXPECT_FALSE(other) << "nothing runs once the flag is set";
  polls = 0;
  loop.poll();
  EXPECT_TRUE(other);
  EXPECT_GT(polls, 0);
}

/// A rank that shares its core returns from its call before it polls for others.
TEST(event_loop, crowded_it_runs_what_handlers_queue_before_it_polls) {
  asio::io_context context{1};
  const auto work = asio::make_work_guard(context);
  int polls = 0, polls_before = -1;
  const idle_link link(context, pollable::poll_cost::system_call, [&] { ++polls; });
  detail::event_loop loop(context, {.max_spin = 10ms, .crowded = true});
  std::atomic<bool> done{false};
  asio::post(context, [&] {
    asio::post(context, [&] {
      polls_before = polls;
      done = true;
    });
  });
  loop.run_until(done);
  EXPECT_EQ(polls_before, 0);
  EXPECT_EQ(polls, 0) << "nothing is waited for any more";
}

/// Without an event it sleeps: its own handler, which is queued twice, is none.
TEST(event_loop, crowded_it_sleeps) {
  asio::io_context context{1};
  const auto work = asio::make_work_guard(context);
  const idle_link link(context, pollable::poll_cost::system_call, [] {});
  detail::event_loop loop(context, {.max_spin = 1ms, .crowded = true});
  const std::atomic<bool> never{false};
  // On a busy machine it has the core again only after its limit, if that is short.
  for (auto limit = 30ms; limit < 10s && loop.stats().missed == 0; limit *= 2) {
    loop.run_until(never, std::chrono::steady_clock::now() + limit);
  }
  EXPECT_GE(loop.stats().missed, 1U);
  EXPECT_EQ(loop.stats().caught, 0U);
}

TEST(event_loop, ends_at_its_limit_and_when_stopped) {
  asio::io_context context{1};
  const auto work = asio::make_work_guard(context);
  detail::event_loop loop(context, {.max_spin = 10us});
  const std::atomic<bool> never{false};
  const auto begun = std::chrono::steady_clock::now();
  loop.run_until(never, begun + 20ms);
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 20ms);
  EXPECT_FALSE(context.stopped());
  asio::post(context, [&] { context.stop(); });
  loop.run_until(never);
  EXPECT_TRUE(context.stopped());
}

}  // namespace
}  // namespace tandem
