#pragma once

#include <tandem/error.hpp>
#include <tandem/log.hpp>

namespace tandem::cli {

/// Exit statuses of the program.
enum exit_status : int { success = 0, failure = 1, wrong_usage = 2, command_not_found = 127 };

/// Writes the process's log to standard error, one line per record: "tandem: warning: tcp: text".
void log_to_stderr(log_level min_level);

/// Call at the start of `main`. Opens standard streams that the parent closed on /dev/null, so that
/// no socket or pipe gets their numbers, and ignores SIGXFSZ: a write beyond the file size limit
/// fails with EFBIG.
void prepare_process();

/// The error for standard output that could not be written; `number` is errno.
error lost_output(int number);
/// Flushes standard output.
/// @par Errors  `errc::bad_input`: some output was lost, now or earlier (a full disk).
void flush_output();

}  // namespace tandem::cli
