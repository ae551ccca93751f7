#include "signals.hpp"

#include <algorithm>

namespace tandem::launcher {

signal_scope::signal_scope() {
  struct sigaction default_action {};
  default_action.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &default_action, &saved_child_action_);
  for (const int number :
       {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2}) {
    const bool always =
        number == SIGTERM || number == SIGCONT || number == SIGUSR1 || number == SIGUSR2;
    struct sigaction found {};
    ::sigaction(number, nullptr, &found);
    if (always || found.sa_handler != SIG_IGN) handled_.push_back(number);
  }
  sigset_t open;
  ::sigemptyset(&open);
  ::sigaddset(&open, SIGCHLD);
  for (const int number : handled_) ::sigaddset(&open, number);
  ::pthread_sigmask(SIG_UNBLOCK, &open, &saved_mask_);
}

signal_scope::~signal_scope() {
  ::pthread_sigmask(SIG_SETMASK, &saved_mask_, nullptr);
  ::sigaction(SIGCHLD, &saved_child_action_, nullptr);
}

bool signal_scope::handles(int number) const noexcept {
  return std::find(handled_.begin(), handled_.end(), number) != handled_.end();
}

bool is_stop_signal(int number) noexcept {
  return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT ||
         number == SIGPIPE;
}

void stop_own_process() noexcept {
  struct sigaction default_action {
  }, ours{};
  default_action.sa_handler = SIG_DFL;
  ::sigaction(SIGTSTP, &default_action, &ours);
  ::raise(SIGTSTP);
  ::sigaction(SIGTSTP, &ours, nullptr);
}

}  // namespace tandem::launcher
