#pragma once

#include <csignal>
#include <vector>

namespace tandem::launcher {

/// Makes the process's signals fit for a launcher whatever it inherited, and puts them back: what
/// it handles is not blocked, and ends of children can be waited for though the parent ignored
/// SIGCHLD.
class signal_scope {
 public:
  signal_scope();
  signal_scope(const signal_scope&) = delete;
  signal_scope& operator=(const signal_scope&) = delete;
  ~signal_scope();

  /// What the launcher handles. An inherited "ignored" is respected, as nohup (HUP) and shells (INT
  /// and QUIT of background jobs) count on it: only TERM, USR1, USR2 and CONT are always handled.
  const std::vector<int>& handled() const noexcept { return handled_; }
  bool handles(int number) const noexcept;

 private:
  struct sigaction before_child_ {};
  sigset_t before_mask_;
  std::vector<int> handled_;
};

/// "INT, TERM, HUP, QUIT": ends the job when sent to the launcher.
bool is_stop_signal(int number) noexcept;

/// Stops this process as SIGTSTP does by default, which in an orphaned process group is not at all;
/// returns when it is continued.
void stop_own_process() noexcept;

}  // namespace tandem::launcher
