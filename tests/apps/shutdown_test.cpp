// Shutdown of a job without processes: which signals, and when.
#include "run/shutdown.hpp"

#include <gtest/gtest.h>

#include <csignal>

namespace tandem::launcher {
namespace {

using namespace std::chrono_literals;

constexpr auto grace = 3s;
constexpr auto kill_after = 2s;

void expect_step(const shutdown_step& step, int signal,
                 std::optional<std::chrono::milliseconds> wait) {
  EXPECT_EQ(step.signal, signal);
  EXPECT_EQ(step.wait, wait);
}

TEST(Shutdown, FailureGivesGraceThenTermThenKill) {
  shutdown end(grace, kill_after);
  expect_step(end.rank_failed(), 0, grace);
  EXPECT_FALSE(end.is_forced());
  expect_step(end.rank_failed(), 0, {});
  expect_step(end.expired(), SIGTERM, kill_after);
  EXPECT_TRUE(end.is_forced());
  expect_step(end.expired(), SIGKILL, {});
  expect_step(end.expired(), 0, {});
  EXPECT_EQ(end.stop_signal(), 0);
}

TEST(Shutdown, StopSignalIsForwardedThenEnforced) {
  for (const int number : {SIGINT, SIGHUP, SIGQUIT}) {
    shutdown end(grace, kill_after);
    expect_step(end.stop_requested(number), number, grace);
    EXPECT_FALSE(end.is_forced());
    expect_step(end.expired(), SIGTERM, kill_after);
    expect_step(end.expired(), SIGKILL, {});
    EXPECT_TRUE(end.is_killing());
    EXPECT_EQ(end.stop_signal(), number);
  }
}

TEST(Shutdown, TerminatedRanksAreKilledAfterGrace) {
  shutdown end(grace, kill_after);
  expect_step(end.stop_requested(SIGTERM), SIGTERM, grace);
  expect_step(end.expired(), SIGKILL, {});
}

TEST(Shutdown, LostReaderTerminatesRanks) {
  shutdown end(grace, kill_after);
  expect_step(end.stop_requested(SIGPIPE), SIGTERM, grace);
  expect_step(end.expired(), SIGKILL, {});
  EXPECT_EQ(end.stop_signal(), SIGPIPE);
}

TEST(Shutdown, SecondSignalShortensThirdKills) {
  shutdown end(grace, kill_after);
  expect_step(end.stop_requested(SIGINT), SIGINT, grace);
  expect_step(end.stop_requested(SIGINT), SIGTERM, kill_after);
  expect_step(end.stop_requested(SIGTERM), SIGKILL, {});
  expect_step(end.stop_requested(SIGTERM), 0, {});
  EXPECT_EQ(end.stop_signal(), SIGINT) << "the first";
}

TEST(Shutdown, HangUpAndLostReaderCountOnce) {
  shutdown end(grace, kill_after);
  expect_step(end.stop_requested(SIGHUP), SIGHUP, grace);
  expect_step(end.stop_requested(SIGHUP), 0, {});
  expect_step(end.stop_requested(SIGPIPE), 0, {});
  expect_step(end.stop_requested(SIGINT), SIGTERM, kill_after);
}

TEST(Shutdown, SignalAfterFailureDoesNotExtendGrace) {
  shutdown end(grace, kill_after);
  expect_step(end.rank_failed(), 0, grace);
  expect_step(end.stop_requested(SIGINT), SIGINT, {});
  expect_step(end.stop_requested(SIGINT), SIGTERM, kill_after);
}

}  // namespace
}  // namespace tandem::launcher
