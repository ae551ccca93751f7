// Descriptors of the launcher, and how a process ended.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tandem/detail/resources.hpp>

namespace tandem::launcher {

/// A file descriptor that it closes.
class owned_fd {
 public:
  owned_fd() = default;
  explicit owned_fd(int fd) noexcept : fd_(fd) {}
  owned_fd(owned_fd&& other) noexcept : fd_(other.release()) {}
  owned_fd& operator=(owned_fd&& other) noexcept;
  ~owned_fd();
  int get() const noexcept { return fd_; }
  int release() noexcept;

 private:
  int fd_ = -1;
};

struct pipe_ends {
  owned_fd read, write;
};
/// A pipe that no started program inherits by accident.
pipe_ends make_pipe();

/// Throws `errc::limit_exceeded` where `number` says that what the call wanted has run out, and
/// which limit says so; else `tandem::error` with the system's code: "what: No such file or
/// directory".
[[noreturn]] void throw_system_error(int number, detail::resource wanted, const std::string& what,
                                     std::string advice = {});

/// One rank's end, as `waitpid` tells it.
struct rank_end {
  int rank;
  int wait_status;
};
/// 0 to 255; 128 + signal where a signal ended the process.
int exit_status(int wait_status) noexcept;
/// "exit status 3", "killed by signal 9 (Killed)".
std::string how_it_ended(int wait_status);
/// "signal 9 (Killed)".
std::string signal_text(int number);
/// Which of the ranks that ended at about the same time failed first: one killed by a signal before
/// one that exited, for those who lose a peer exit by themselves. Empty where all ended well.
std::optional<rank_end> first_failure(std::span<const rank_end> ended);

}  // namespace tandem::launcher
