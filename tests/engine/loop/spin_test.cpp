#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <stdexcept>
#include <tandem/async.hpp>
#include <thread>

namespace tandem {
namespace {

using namespace std::chrono_literals;

TEST(spin_budget, halves_when_spinning_finds_nothing) {
  spin_budget budget({.max_spin = 40us});
  EXPECT_EQ(budget.next(), 40us);
  budget.missed(1s);
  EXPECT_EQ(budget.next(), 20us);
  for (int i = 0; i < 20; ++i) budget.missed(1s);
  EXPECT_EQ(budget.next(), 5us) << "what two ends need to find each other at work";
  EXPECT_EQ(budget.stats().missed, 21u);
}

TEST(spin_budget, of_crowded_loop_drops_to_zero) {
  spin_budget budget({.max_spin = 40us, .crowded = true});
  for (int i = 0; i < 20; ++i) budget.missed(1s);
  EXPECT_LT(budget.next(), 1us);
  budget.missed(41us);
  EXPECT_LT(budget.next(), 1us) << "wake-up latency does not justify occupying a contended core";
  budget.missed(40us);
  EXPECT_EQ(budget.next(), 40us);
}

TEST(spin_budget, of_crowded_loop_sleeps_longer_each_time_spinning_fails) {
  spin_budget budget({.max_spin = 40us, .crowded = true});
  for (const int sleeps : {1, 3, 7, 15, 31, 63, 127, 255, 255}) {
    EXPECT_EQ(budget.next(), 40us);
    budget.missed(30us);
    for (int i = 0; i < sleeps; ++i) {
      EXPECT_EQ(budget.next(), 0us) << i << " of " << sleeps;
      budget.missed(30us);
    }
  }
  for (int i = 0; i < 8; ++i) budget.caught();
  budget.missed(30us);
  EXPECT_EQ(budget.next(), 0us);
  budget.missed(30us);
  EXPECT_EQ(budget.next(), 40us) << "spins that catch events are forgiven earlier ones";
}

TEST(spin_budget, accounts_for_wake_up_latency) {
  spin_budget budget({.max_spin = 40us});
  budget.missed(1s);
  budget.missed(90us);
  EXPECT_EQ(budget.next(), 40us);
  budget.missed(91us);
  EXPECT_EQ(budget.next(), 80us);
}

TEST(spin_budget, grows_while_sleeps_are_short) {
  spin_budget budget({.max_spin = 40us});
  for (const auto expected : {80us, 160us, 320us, 640us, 640us}) {
    budget.missed(640us);
    EXPECT_EQ(budget.next(), expected);
  }
  budget.caught();
  EXPECT_EQ(budget.next(), 640us);
  budget.missed(90us);
  EXPECT_EQ(budget.next(), 640us) << "a spin of that length would have caught it, too";
  for (const auto expected : {320us, 160us, 80us, 40us, 20us}) {
    budget.missed(641us);
    EXPECT_EQ(budget.next(), expected);
  }
  budget.missed(640us);
  EXPECT_EQ(budget.next(), 40us) << "from the usual length again";
}

TEST(spin_budget, recovers_when_spinning_would_pay) {
  spin_budget budget({.max_spin = 40us});
  for (int i = 0; i < 20; ++i) budget.missed(1s);
  budget.missed(30us);
  EXPECT_EQ(budget.next(), 40us);
  budget.missed(1s);
  budget.caught();
  EXPECT_EQ(budget.next(), 40us);
  EXPECT_EQ(budget.stats().caught, 1u);
}

TEST(spin_budget, of_zero_stays_zero) {
  spin_budget budget({.max_spin = 0us});
  budget.caught();
  budget.missed(0ns);
  EXPECT_EQ(budget.next(), 0ns);
}

TEST(run, returns_when_out_of_work) {
  asio::io_context context{1};
  int ran = 0;
  asio::post(context, [&] {
    ++ran;
    asio::post(context, [&] { ++ran; });
  });
  asio::steady_timer timer(context, 5ms);
  timer.async_wait([&](auto) { ++ran; });
  run(context);
  EXPECT_EQ(ran, 3);
  EXPECT_TRUE(context.stopped());
}

TEST(run, without_spinning) {
  asio::io_context context{1};
  bool ran = false;
  asio::steady_timer timer(context, 2ms);
  timer.async_wait([&](auto) { ran = true; });
  const spin_stats stats = run(context, {.max_spin = 0us});
  EXPECT_TRUE(ran);
  EXPECT_EQ(stats.caught, 0u);
}

TEST(run, returns_when_stopped) {
  asio::io_context context{1};
  const auto work = asio::make_work_guard(context);
  asio::post(context, [&] { context.stop(); });
  run(context);
  EXPECT_TRUE(context.stopped());
}

TEST(run, is_woken_from_another_thread) {
  asio::io_context context{1};
  auto work = asio::make_work_guard(context);
  std::thread other([&] { asio::post(context, [&] { work.reset(); }); });
  run(context);
  other.join();
}

TEST(run, propagates_exceptions_and_can_resume) {
  asio::io_context context{1};
  bool ran = false;
  asio::post(context, [] { throw std::runtime_error("of a handler"); });
  asio::post(context, [&] { ran = true; });
  EXPECT_THROW(run(context), std::runtime_error);
  run(context);
  EXPECT_TRUE(ran);
}

/// So many handlers that the loop's own poll of the links is queued behind them and runs after the
/// spin that posted it: AddressSanitizer checks what it then accesses.
TEST(run, more_handlers_than_a_turn_takes) {
  asio::io_context context;
  int ran = 0;
  for (int i = 0; i < 1000; ++i) asio::post(context, [&ran] { ++ran; });
  run(context);
  EXPECT_EQ(ran, 1000);
}

}  // namespace
}  // namespace tandem
