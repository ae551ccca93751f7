// Processes of one job: started in one group, ended as one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

/// The process group of a job, led by a guard: a process that waits for the launcher's end and then
/// kills the group. Thus nothing outlives the launcher, not even one that is killed by SIGKILL.
class process_group {
 public:
  process_group();
  process_group(const process_group&) = delete;
  process_group& operator=(const process_group&) = delete;
  /// Kills what is left of the group.
  ~process_group();

  pid_t id() const noexcept { return guard_; }
  /// To every process of the group; the guard ignores all but SIGKILL.
  void signal(int number) const noexcept;

 private:
  owned_fd alive_;  ///< its other end reads end-of-file when the launcher is gone
  pid_t guard_ = -1;
};

/// While it lives, this process has that soft limit of file descriptors (RLIMIT_NOFILE), and what
/// it starts keeps it. Open ones beyond it stay open.
class scoped_soft_limit {
 public:
  explicit scoped_soft_limit(std::uint64_t descriptors) noexcept;
  scoped_soft_limit(const scoped_soft_limit&) = delete;
  scoped_soft_limit& operator=(const scoped_soft_limit&) = delete;
  ~scoped_soft_limit();

 private:
  static void set(std::uint64_t descriptors) noexcept;

  const std::uint64_t before_;
};

/// Starts a program in the group with empty standard input. `environment`: "NAME=value".
/// @par Errors  `errc::limit_exceeded`: no more processes or descriptors, and which limit says so;
/// else `tandem::error` with the system's code: no such command, no permission.
pid_t start_process(const process_group& group, std::span<const std::string> command,
                    std::span<const std::string> environment, int output, int error_output);

/// One rank's end, as `waitpid` tells it.
struct rank_end {
  int rank;
  int wait_status;
};
/// 0 to 255; 128 + signal where a signal ended the process.
int exit_status(int wait_status) noexcept;
/// "exit status 3", "killed by signal 9 (Killed)".
std::string how_it_ended(int wait_status);
/// Which of the ranks that ended at about the same time failed first: one killed by a signal before
/// one that exited, for those who lose a peer exit by themselves. Empty where all ended well.
std::optional<rank_end> first_failure(std::span<const rank_end> ended);

}  // namespace tandem::launcher
