// The parent of all ranks: a small process between the launcher and them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "process.hpp"

namespace tandem::launcher {

/// Event from the reaper to the launcher.
struct reaper_event {
  enum class kind : std::int32_t {
    started,       ///< `process` was started
    start_failed,  ///< the process could not be started: `value` is errno
    ended,         ///< `process` has ended: `value` is its wait status
    empty,         ///< after `report_empty`: no process of the job is left
    cleaned_up     ///< no process of the job is left except `value` that cannot be killed
  };
  kind what;
  std::int32_t process;
  std::int32_t value;
};

/// The name of the process, by which others recognise it.
inline constexpr const char* reaper_name = "tandem-reaper";

/// Starts and ends the processes of a job. They are children of a separate process, which adopts
/// all orphaned descendants (PR_SET_CHILD_SUBREAPER) and kills all of them on request, or when the
/// launcher exits, even by SIGKILL, and even while the reaper is stopped. No descendant survives,
/// whatever session or process group it created, stopped or not. The ranks are one process group,
/// led by the reaper; a rank dies with the reaper (PR_SET_PDEATHSIG), and the launcher then adopts
/// and kills what the ranks had started. Only if both are killed at once do the processes survive
/// that a rank has started, and that do not end with it: nobody is left to kill them.
class reaper {
 public:
  /// Forks. @pre No other thread of this process holds a lock that fork does not reset, unlike
  /// those of malloc.
  reaper();
  reaper(const reaper&) = delete;
  reaper& operator=(const reaper&) = delete;
  /// Kills all remaining processes of the job and waits for them, at most some seconds.
  ~reaper();

  pid_t id() const noexcept { return process_; }

  /// Starts a program with empty standard input, default signal handling and no blocked signals; an
  /// ignored HUP, INT or QUIT stays ignored. `environment`: "NAME=value". Blocks until it runs.
  /// @par Errors  `errc::limit_exceeded`: no more processes or descriptors, and which limit was
  /// reached; else `tandem::error` with the system's code: no such command, no permission.
  pid_t start(std::span<const std::string> command, std::span<const std::string> environment,
              int output, int error_output);

  /// Sends a signal to the ranks' process group, and to each descendant outside it, by its own
  /// group where a descendant leads that.
  void signal(int number) noexcept;
  /// Asks for `empty` as soon as no process of the job is left.
  void report_empty() noexcept;
  /// Sends SIGKILL to all descendants until none is left, which `cleaned_up` reports.
  void kill_all() noexcept;

  /// Events received while a rank was being started. Later ones are read from `descriptor` as whole
  /// `reaper_event`s; its end of file means that the reaper was killed, and the ranks with it.
  std::deque<reaper_event>& early_events() noexcept { return early_; }
  int descriptor() const noexcept { return socket_.get(); }
  /// After that end of file: kills the remaining processes of the job, which this process has
  /// adopted, and waits for them, at most some seconds. Returns how many cannot be killed.
  int kill_orphans() const noexcept;

 private:
  reaper_event wait_for_start();

  owned_fd socket_;
  pid_t process_ = -1;
  std::vector<pid_t> earlier_children_;  ///< of this process, which are not of the job
  int was_subreaper_ = 0;
  std::deque<reaper_event> early_;
};

}  // namespace tandem::launcher
