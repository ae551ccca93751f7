#pragma once

#include <tandem/log.hpp>

namespace tandem::cli {

/// How every subcommand ends.
enum exit_status : int { success = 0, failure = 1, wrong_usage = 2, command_not_found = 127 };

/// Sends the process's log to standard error, one line each: "tandem: warning: tcp: text".
void log_to_stderr(log_level least);

}  // namespace tandem::cli
