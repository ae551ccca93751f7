#include "console.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>
#include <tandem/detail/resources.hpp>
#include <tandem/detail/stderr_sink.hpp>
#include <tandem/error.hpp>

namespace tandem::cli {
namespace {

/// The first failure of standard output: errno; 0: none.
int output_failure = 0;

std::string advice_for_output(int number) {
  switch (number) {
    case EPIPE:
      return "its reader closed it before the end";
    case EBADF:
      return "it is closed; open it, or send it to /dev/null";
    case ENOSPC:
    case EDQUOT:
      return "free space for it";
    default:
      return {};
  }
}

/// Drops what is buffered, so that nothing fails again at exit.
void drop_buffered() {
  __fpurge(stdout);
}

/// @param failed  the last call failed, with errno
void record(bool failed) {
  if (!failed) return;
  if (output_failure == 0) output_failure = errno != 0 ? errno : EIO;
  drop_buffered();
  if (output_failure == EPIPE) finish_output();
}

}  // namespace

void log_to_stderr(log_level min_level) {
  detail::log_to_stderr(min_level);
}

void prepare_process() {
  // open() returns the lowest free number: that of the missing stream. Writing to standard output
  // fails if it is open for reading only.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    if (::open("/dev/null", stream == STDOUT_FILENO ? O_RDONLY : O_RDWR) < 0) break;
  }
  ::signal(SIGXFSZ, SIG_IGN);
  // A handler, unlike SIG_IGN, is not inherited by programs that this one starts, and lets the
  // launcher handle the signal.
  struct sigaction pipe_action {};
  ::sigaction(SIGPIPE, nullptr, &pipe_action);
  if (pipe_action.sa_handler != SIG_DFL) return;
  pipe_action.sa_handler = [](int) {};
  pipe_action.sa_flags = SA_RESTART;
  ::sigaction(SIGPIPE, &pipe_action, nullptr);
}

void print(std::string_view text) {
  if (output_failure != 0 || text.empty()) return;
  errno = 0;
  record(std::fwrite(text.data(), 1, text.size(), stdout) != text.size());
}

void print_now(std::string_view text) {
  print(text);
  if (output_failure != 0) return;
  errno = 0;
  record(std::fflush(stdout) != 0);
}

void finish_output() {
  if (output_failure == 0) {
    errno = 0;
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      output_failure = errno != 0 ? errno : EIO;
      drop_buffered();
    }
  }
  // Network file systems report some failures when a descriptor is closed.
  const int copy = output_failure == 0 ? ::dup(STDOUT_FILENO) : -1;
  if (copy >= 0 && ::close(copy) != 0 && errno != EINTR) output_failure = errno;
  if (output_failure == 0) return;
  throw error(
      errc::bad_input,
      fmt::format("standard output: {}; some of it was lost", detail::errno_text(output_failure)),
      advice_for_output(output_failure));
}

}  // namespace tandem::cli
