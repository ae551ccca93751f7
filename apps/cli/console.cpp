#include "console.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>
#include <tandem/detail/resources.hpp>
#include <tandem/detail/stderr_sink.hpp>
#include <tandem/error.hpp>

namespace tandem::cli {

void log_to_stderr(log_level min_level) {
  detail::log_to_stderr(min_level);
}

void prepare_process() {
  // open() returns the lowest free number: that of the missing stream.
  while (::fcntl(0, F_GETFD) < 0 || ::fcntl(1, F_GETFD) < 0 || ::fcntl(2, F_GETFD) < 0) {
    if (::open("/dev/null", O_RDWR) < 0) break;
  }
  ::signal(SIGXFSZ, SIG_IGN);
}

error lost_output(int number) {
  const std::string why = number != 0 ? detail::errno_text(number) : "a write failed";
  return error(errc::bad_input, fmt::format("standard output: {}; some of it was lost", why),
               "is the disk full?");
}

void flush_output() {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (!flushed || std::ferror(stdout) != 0) throw lost_output(errno);
}

}  // namespace tandem::cli
