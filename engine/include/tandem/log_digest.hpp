#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tandem/log.hpp>

namespace tandem {

/// Logs the first of many records of a kind at once, and after it only how many more there were,
/// at most once in ten seconds and at the end: what strangers do must not fill a log. One thread.
class log_digest {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  log_digest(log_level level, std::string_view room) : level_(level), room_(room) {}
  log_digest(const log_digest&) = delete;
  log_digest& operator=(const log_digest&) = delete;
  /// Logs what was counted and not yet said.
  ~log_digest();

  /// @param kind  a word of the program: nothing that comes from outside, for each costs memory.
  void add(std::string_view kind, std::string_view text, time_point now);

 private:
  struct count {
    time_point said;
    std::uint64_t unsaid = 0;
    std::string last;
  };
  void say(count& of);

  log_level level_;
  std::string room_;
  std::map<std::string, count, std::less<>> kinds_;
};

}  // namespace tandem
