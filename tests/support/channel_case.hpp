#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <tandem/channel.hpp>
#include <tandem/settings.hpp>

#include "support/coroutine_test.hpp"
#include "support/pattern.hpp"

namespace tandem::test {

/// Two connected ends on the caller's executor.
struct channel_pair {
  std::unique_ptr<channel> first;
  std::unique_ptr<channel> second;
};

/// A kind of channel, as a parameter of the suite. A new kind adds a file that instantiates
/// `channel_test` with it.
struct channel_case {
  std::string name;
  awaitable<channel_pair> (*connect)(settings options);
  drive how = drive::by_asio;
  bool is_host = true;    ///< CPUs write its views; else operations complete one copy later
  bool is_steady = true;  ///< no lane is reset, no memory is new to it, no test forwards it
};

inline std::string case_name(const testing::TestParamInfo<channel_case>& info) {
  return info.param.name;
}
inline void PrintTo(const channel_case& c, std::ostream* out) {
  *out << c.name;
}

/// The contract of every channel: `from` and `to` are its two ends; each test runs in both
/// directions.
class channel_test : public testing::TestWithParam<channel_case> {
 public:
  using body = awaitable<void> (*)(channel& from, channel& to);
  static void both_ways(body run, const settings& options);

  /// For bodies that destroy an end.
  using owning_body = awaitable<void> (*)(std::unique_ptr<channel> from,
                                          std::unique_ptr<channel> to);
  static void both_ways(owning_body run, const settings& options);
};

/// Short messages, chunks and credits, so that a test reaches every limit with few bytes.
settings small_settings();
/// The same, with a job secret.
settings with_secret(std::string_view text = "a secret of this job");

/// Sends `pattern(bytes, seed)`.
awaitable<void> send_pattern(channel& on, flow_id flow, std::size_t bytes, std::uint64_t seed);
/// Receives into exactly as many bytes and checks length and content.
awaitable<void> recv_pattern(channel& on, flow_id flow, std::size_t bytes, std::uint64_t seed);
/// One short message each way: the channel works, and all earlier sends are complete.
awaitable<void> expect_usable(channel& from, channel& to, flow_id flow = 0);

/// Waits until `end` buffers this many unexpected bytes.
awaitable<void> until_unexpected(channel& end, std::uint64_t bytes);

/// CHANNEL_TEST(name, settings) { body of a coroutine with channel& from, channel& to }
#define CHANNEL_TEST(test_name, test_settings)                            \
  static awaitable<void> test_name##_body(channel& from, channel& to);    \
  TEST_P(channel_test, test_name) {                                       \
    both_ways(test_name##_body, test_settings);                           \
  }                                                                       \
  static awaitable<void> test_name##_body([[maybe_unused]] channel& from, \
                                          [[maybe_unused]] channel& to)

}  // namespace tandem::test
