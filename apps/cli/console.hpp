#pragma once

#include <string_view>
#include <tandem/log.hpp>

namespace tandem::cli {

/// Exit statuses of the program.
enum exit_status : int {
  success = 0,
  failure = 1,
  wrong_usage = 2,
  command_not_executable = 126,
  command_not_found = 127
};

/// Writes the process's log to standard error, one line per record: "tandem: warning: tcp: text".
void log_to_stderr(log_level min_level);

/// Call at the start of `main`. Opens standard streams that the parent closed on /dev/null, so that
/// no socket or pipe gets their numbers; what is written to a closed standard output is still lost,
/// and reported. A write beyond the file size limit or to a pipe without a reader fails (EFBIG,
/// EPIPE) instead of killing the process; children keep the default actions, or what was ignored.
void prepare_process();

/// Writes to standard output, buffered. If a pipe's reader has closed it, that is an error at once;
/// after any other failure further output is dropped, and `finish_output` throws: a full disk must
/// not end the work whose result goes to another file.
/// @par Errors  `errc::bad_input`: closed by its reader.
void print(std::string_view text);
/// The same, and writes what is buffered.
void print_now(std::string_view text);

/// Writes what is buffered; call at the end.
/// @par Errors  `errc::bad_input`: some output was lost, now or earlier, and why.
void finish_output();

}  // namespace tandem::cli
