#pragma once

#include <functional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace tandem {

/// The severity of a log record, in ascending order.
enum class log_level { debug, info, warning, error };
/// "debug", "info", "warning" or "error".
std::string_view name(log_level level) noexcept;

/// One line of the log. The texts are valid during the call of the sink only.
struct log_record {
  log_level level;
  std::string_view component;  ///< the component that logs: "tcp", "rendezvous"
  std::string_view text;       ///< lower case, one line, no end of line
};

/// Called on the logging thread; must not throw or block for long.
using log_sink = std::function<void(const log_record&)>;

/// Replaces the sink of the process and returns the previous one. The initial sink discards
/// everything, except that it writes warnings about TANDEM_ variables that are no options to
/// standard error; the library prints nothing else. Thread-safe.
log_sink set_log_sink(log_sink sink, log_level min_level = log_level::info);

/// True if a record of this level reaches the sink; check before composing an expensive text.
bool log_enabled(log_level level) noexcept;
/// Passes a record to the sink, if the sink's level is at most this one. Thread-safe.
void log(log_level level, std::string_view component, std::string_view text);

}  // namespace tandem

#pragma GCC visibility pop
