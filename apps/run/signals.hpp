#pragma once

#include <csignal>
#include <vector>

namespace tandem::launcher {

/// Sets up the signals of a launcher independently of what it inherited, and restores them: handled
/// signals are unblocked, and children can be waited for even if the parent ignored SIGCHLD.
class signal_scope {
 public:
  signal_scope();
  signal_scope(const signal_scope&) = delete;
  signal_scope& operator=(const signal_scope&) = delete;
  ~signal_scope();

  /// The signals that the launcher handles. Signals inherited as ignored stay ignored, on which
  /// nohup (HUP) and shells (INT and QUIT of background jobs) rely; TERM, USR1, USR2 and CONT are
  /// always handled.
  const std::vector<int>& handled() const noexcept { return handled_; }
  bool handles(int number) const noexcept;

 private:
  struct sigaction saved_child_action_ {};
  sigset_t saved_mask_;
  std::vector<int> handled_;
};

/// True for INT, TERM, HUP, QUIT and PIPE, which end the job when sent to the launcher.
bool is_stop_signal(int number) noexcept;

/// Stops this process by the default action of SIGTSTP (none in an orphaned process group); returns
/// when it is continued.
void stop_own_process() noexcept;

}  // namespace tandem::launcher
