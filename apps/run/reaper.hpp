// The parent of all ranks: a small process between the launcher and them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <span>
#include <string>

#include "process.hpp"

namespace tandem::launcher {

/// What the reaper tells the launcher.
struct reaper_event {
  enum class kind : std::int32_t {
    started,  ///< `process` runs
    refused,  ///< it could not be started: `value` is errno
    ended,    ///< `process` has ended: `value` is its wait status
    cleared   ///< nothing of the job is left but `value` processes that cannot be killed
  };
  kind what;
  std::int32_t process;
  std::int32_t value;
};

/// Starts and ends the processes of a job. They are children of a process of its own, which adopts
/// every orphan among their descendants (PR_SET_CHILD_SUBREAPER) and kills all of them when it is
/// asked to, or when the launcher is gone, even by SIGKILL: whatever session or process group a
/// descendant made for itself, stopped or not, none is left. The ranks are one process group, which
/// the reaper leads; a rank dies with it (PR_SET_PDEATHSIG).
class reaper {
 public:
  /// Forks. @pre No other thread of this process holds a lock that `malloc` does not know of.
  reaper();
  reaper(const reaper&) = delete;
  reaper& operator=(const reaper&) = delete;
  /// Kills what is left of the job, and waits for that; bounded by some seconds.
  ~reaper();

  pid_t id() const noexcept { return process_; }

  /// Starts a program with empty standard input, default signals and nothing blocked; an ignored
  /// HUP, INT or QUIT stays ignored. `environment`: "NAME=value". Blocks until it runs.
  /// @par Errors  `errc::limit_exceeded`: no more processes or descriptors, and which limit says
  /// so; else `tandem::error` with the system's code: no such command, no permission.
  pid_t start(std::span<const std::string> command, std::span<const std::string> environment,
              int output, int error_output);

  /// To the ranks' process group, and to each rank that left it with the group that it leads now.
  void signal(int number) noexcept;
  /// SIGKILL to all descendants, again and again until none is left; `cleared` tells that.
  void kill_all() noexcept;

  /// Events that came while a rank was started; then those that `descriptor` gives, in whole
  /// `reaper_event`s. Its end of file: the reaper was killed, and the ranks with it.
  std::deque<reaper_event>& early_events() noexcept { return early_; }
  int descriptor() const noexcept { return socket_.get(); }
  /// After that end of file: kills the processes of the ranks' group that are left.
  void kill_group() const noexcept;

 private:
  reaper_event wait_for_start();

  owned_fd socket_;
  pid_t process_ = -1;
  std::deque<reaper_event> early_;
};

}  // namespace tandem::launcher
