#pragma once

#include <gtest/gtest.h>

#include <functional>

namespace tandem::test {

/// Whether one of five attempts succeeds: for what another process must do within a limit, or
/// before something else, which a busy machine may hold up at any time. What does not depend on
/// time is checked in each attempt; a failure there ends them.
///
///   EXPECT_TRUE(succeeds_once([&] {
///     const auto lost_at = clock::now();
///     ... expectations ...
///     return clock::now() - lost_at < limit;
///   }));
inline bool succeeds_once(const std::function<bool()>& attempt) {
  constexpr int attempts = 5;
  for (int number = 0; number < attempts && !testing::Test::HasFailure(); ++number) {
    if (attempt()) return true;
  }
  return false;
}

}  // namespace tandem::test
