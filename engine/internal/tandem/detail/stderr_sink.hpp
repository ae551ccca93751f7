#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <tandem/log.hpp>

namespace tandem::detail {

/// Writes the log of this process to standard error, from that level on, one line for each record:
///
///     tandem: warning: tcp: text
///
/// For programs; the library itself prints nothing.
inline void log_to_stderr(log_level min_level) {
  const auto print = [](const log_record& record) {
    // One write per line, so that lines of several threads or processes do not interleave.
    const std::string line =
        fmt::format("tandem: {}: {}: {}\n", name(record.level), record.component, record.text);
    std::fwrite(line.data(), 1, line.size(), stderr);
  };
  set_log_sink(print, min_level);
}

}  // namespace tandem::detail
