#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace tandem {

enum class log_level { debug, info, warning, error };
std::string_view name(log_level level) noexcept;

struct log_record {
  log_level level;
  std::string_view room;  ///< where it comes from: "tcp", "rendezvous"
  std::string_view text;  ///< lower case, one line, no end of line
};

/// Called on the thread that logs; must not throw or block for long.
using log_sink = std::function<void(const log_record&)>;

/// Replaces the sink of the process and returns the old one. The first sink drops everything: the
/// library itself prints nothing. Thread-safe.
log_sink set_log_sink(log_sink sink, log_level least = log_level::info);

/// True where a record of this level would reach the sink; ask before building a costly text.
bool log_wants(log_level level) noexcept;
void log(log_level level, std::string_view room, std::string_view text);

}  // namespace tandem
