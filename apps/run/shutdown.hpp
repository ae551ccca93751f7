// State machine of the end of a job: which signals its ranks get, and when. No I/O.
#pragma once

#include <chrono>
#include <optional>

namespace tandem::launcher {

/// The next action: send `signal` to the ranks unless it is 0, and call `shutdown::expired` after
/// `wait`, which replaces an earlier wait; empty: the earlier wait continues.
struct shutdown_step {
  int signal = 0;
  std::optional<std::chrono::milliseconds> wait;
};

/// | event                  | ranks get                          | then                           |
/// |------------------------|------------------------------------|--------------------------------|
/// | the first rank failed  | nothing                            | `grace`, SIGTERM, `kill_after`,|
/// |                        |                                    | SIGKILL                        |
/// | first stop signal      | the same (SIGTERM for SIGPIPE)     | as above; if that was SIGTERM: |
/// |                        |                                    | `grace`, SIGKILL               |
/// | second stop signal     | SIGTERM                            | `kill_after`, SIGKILL          |
/// | third stop signal      | SIGKILL                            |                                |
///
/// A wait is never extended once it has begun. SIGHUP and SIGPIPE are often delivered repeatedly:
/// repetitions do not count as a second stop signal.
class shutdown {
 public:
  shutdown(std::chrono::milliseconds grace, std::chrono::milliseconds kill_after) noexcept
      : grace_(grace), kill_after_(kill_after) {}

  shutdown_step rank_failed() noexcept;
  shutdown_step stop_requested(int signal) noexcept;
  shutdown_step expired() noexcept;

  /// The first stop signal; 0: none so far.
  int stop_signal() const noexcept { return stop_signal_; }
  /// True once the launcher is ending the ranks: further failures are caused by that.
  bool is_forced() const noexcept { return phase_ >= phase::terminating; }
  /// True once the ranks have got a signal, which their descendants may still handle.
  bool has_signalled() const noexcept { return stop_signal_ != 0 || is_forced(); }
  bool is_killing() const noexcept { return phase_ == phase::killing; }

 private:
  enum class phase { running, waiting, terminating, killing };

  shutdown_step terminate() noexcept;
  shutdown_step kill() noexcept;

  const std::chrono::milliseconds grace_;
  const std::chrono::milliseconds kill_after_;
  phase phase_ = phase::running;
  int stop_signal_ = 0;
  int stop_count_ = 0;
};

}  // namespace tandem::launcher
