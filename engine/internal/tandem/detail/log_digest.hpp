#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tandem/log.hpp>

namespace tandem {

/// Rate-limits log records: the first of a kind is logged at once, later ones as a count, at most
/// once in ten seconds and at destruction. Unauthenticated peers must not be able to flood the log.
/// Not thread-safe.
class log_digest {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  log_digest(log_level level, std::string_view component) : level_(level), component_(component) {}
  log_digest(const log_digest&) = delete;
  log_digest& operator=(const log_digest&) = delete;
  /// Logs counts not yet reported.
  ~log_digest();

  /// @param kind  from a fixed set: each distinct kind takes memory, so never a peer's input.
  void add(std::string_view kind, std::string_view text, time_point now);

 private:
  struct count {
    time_point last_report;
    std::uint64_t unreported = 0;
    std::string last;
  };
  void report(count& of);

  log_level level_;
  std::string component_;
  std::map<std::string, count, std::less<>> kinds_;
};

}  // namespace tandem
