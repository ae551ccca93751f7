// Which processes of ranks a launcher signals besides their group.
#include "run/descendants.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

namespace tandem::launcher {
namespace {

constexpr pid_t ranks = 100;  // the reaper, which leads the group of the ranks
using targets = std::vector<pid_t>;

targets of(std::initializer_list<descendant> all) {
  return escaped_targets(std::vector<descendant>(all), ranks);
}

TEST(Descendants, InTheRanksGroupAreReachedByIt) {
  EXPECT_EQ(of({}), targets{});
  EXPECT_EQ(of({{101, 100, 100}, {102, 100, 100}, {103, 101, 100}}), targets{});
}

TEST(Descendants, AGroupThatOneLeadsGetsTheSignalOnce) {
  EXPECT_EQ(of({{101, 100, 101}, {102, 101, 101}, {103, 102, 101}}), targets{-101});
  EXPECT_EQ(of({{101, 100, 100}, {102, 101, 102}, {103, 102, 103}, {104, 102, 102}}),
            (targets{-102, -103}));
}

/// Its leader has ended, or it is no process of the job: only its members are signalled.
TEST(Descendants, MembersOfAnotherGroupAreSignalledOneByOne) {
  EXPECT_EQ(of({{101, 100, 50}, {102, 101, 50}, {103, 100, 100}}), (targets{101, 102}));
}

TEST(Descendants, OfAnotherLauncherAreLeftToIt) {
  EXPECT_EQ(of({{101, 100, 100},
                {102, 101, 102, true},
                {103, 102, 102},
                {104, 103, 104},
                {105, 104, 105},
                {106, 101, 106}}),
            targets{-106});
}

TEST(Descendants, AreFoundInProc) {
  if (!proc_shows_our_namespace()) GTEST_SKIP() << "/proc shows another PID namespace";
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    if (::fork() == 0) ::setsid();
    for (;;) ::pause();
  }
  std::vector<descendant> found;
  const auto of_child = [&found](const descendant& one) { return one.group == one.id; };
  while (std::count_if(found.begin(), found.end(), of_child) < 2)
    found = descendants_of(::getpid());
  const auto first = std::find_if(found.begin(), found.end(),
                                  [child](const descendant& one) { return one.id == child; });
  ASSERT_NE(first, found.end());
  const auto second = std::find_if(found.begin(), found.end(),
                                   [child](const descendant& one) { return one.parent == child; });
  ASSERT_NE(second, found.end());
  EXPECT_LT(first, second);
  const targets both = escaped_targets(found, ::getpgrp());
  for (const pid_t one : {child, second->id}) {
    EXPECT_NE(std::find(both.begin(), both.end(), -one), both.end());
    ::kill(one, SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace tandem::launcher
