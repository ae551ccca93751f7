// The processes that the ranks have started, as /proc shows them.
#pragma once

#include <sys/types.h>

#include <span>
#include <vector>

namespace tandem::launcher {

/// True if /proc shows the PID namespace of this process; else its numbers are not ours.
bool proc_shows_our_namespace() noexcept;

/// The children of all threads of a process, including those that it has adopted.
std::vector<pid_t> children_of(pid_t process);

struct descendant {
  pid_t id;
  pid_t parent;
  pid_t group;
  bool is_reaper = false;  ///< of a launcher that a rank has started
};
/// All descendants, parents before their children. A process that changes its parent meanwhile may
/// be missing.
std::vector<descendant> descendants_of(pid_t process);

/// What to give to kill(2), so that a signal reaches each descendant outside the group of the ranks
/// once: minus a group that a descendant leads, else a process. Descendants of another launcher's
/// reaper get the signal from that launcher. No I/O. @param all  as `descendants_of` returns them
std::vector<pid_t> escaped_targets(std::span<const descendant> all, pid_t ranks_group);

}  // namespace tandem::launcher
