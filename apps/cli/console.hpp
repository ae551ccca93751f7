#pragma once

#include <tandem/error.hpp>
#include <tandem/log.hpp>

namespace tandem::cli {

/// How every subcommand ends.
enum exit_status : int { success = 0, failure = 1, wrong_usage = 2, command_not_found = 127 };

/// Sends the process's log to standard error, one line each: "tandem: warning: tcp: text".
void log_to_stderr(log_level least);

/// For the first lines of a `main`: a standard stream that the parent left closed becomes
/// /dev/null, so that no socket or pipe takes its number; and a write beyond the limit on the size
/// of files fails with EFBIG in place of a signal.
void prepare_process();

/// Some of standard output could not be written; `number` is errno.
error lost_output(int number);
/// Writes what standard output still holds.
/// @par Errors  `errc::bad_input`: some of it was lost, now or before (a full disk).
void flush_output();

}  // namespace tandem::cli
