#include "console.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <string>

namespace tandem::cli {

void log_to_stderr(log_level least) {
  const auto print = [](const log_record& record) {
    // One write per line, so that lines of several threads or processes do not mix.
    const std::string line =
        fmt::format("tandem: {}: {}: {}\n", name(record.level), record.room, record.text);
    std::fwrite(line.data(), 1, line.size(), stderr);
  };
  set_log_sink(print, least);
}

}  // namespace tandem::cli
