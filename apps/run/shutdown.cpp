#include "shutdown.hpp"

#include <csignal>

namespace tandem::launcher {

shutdown_step shutdown::rank_failed() noexcept {
  if (phase_ != phase::running) return {};
  phase_ = phase::waiting;
  return {0, grace_};
}

shutdown_step shutdown::stop_requested(int signal) noexcept {
  const bool repeated = stop_signal_ != 0 && (signal == SIGHUP || signal == SIGPIPE);
  if (repeated || phase_ == phase::killing) return {};
  if (++stop_count_ == 1) {
    stop_signal_ = signal;
    shutdown_step step{signal == SIGPIPE ? SIGTERM : signal, {}};
    if (phase_ == phase::running) {
      phase_ = phase::waiting;
      step.wait = grace_;
    }
    return step;
  }
  return phase_ == phase::waiting ? terminate() : kill();
}

shutdown_step shutdown::expired() noexcept {
  if (phase_ == phase::running || phase_ == phase::killing) return {};
  const bool had_term = stop_signal_ == SIGTERM || stop_signal_ == SIGPIPE;
  return phase_ == phase::waiting && !had_term ? terminate() : kill();
}

shutdown_step shutdown::terminate() noexcept {
  phase_ = phase::terminating;
  return {SIGTERM, kill_after_};
}

shutdown_step shutdown::kill() noexcept {
  phase_ = phase::killing;
  return {SIGKILL, {}};
}

}  // namespace tandem::launcher
