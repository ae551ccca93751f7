#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <tandem/log.hpp>

namespace tandem::detail {

/// Writes one line to standard error:
///
///     tandem: warning: tcp: text
inline void print_record(const log_record& record) {
  // One write per line, so that lines of several threads or processes do not interleave.
  const std::string line =
      fmt::format("tandem: {}: {}: {}\n", name(record.level), record.component, record.text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

/// Writes the log of this process to standard error, from that level on. For programs; the library
/// itself prints nothing but what `warn_program` says.
inline void log_to_stderr(log_level min_level) {
  set_log_sink(print_record, min_level);
}

/// A warning that the program should see although it has set no sink: then it is printed.
void warn_program(std::string_view component, std::string_view text);

}  // namespace tandem::detail
