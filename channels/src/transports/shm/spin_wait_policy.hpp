#pragma once

namespace tandem::shm {

/// About a microsecond: the time that a peer which is also polling takes to reply.
constexpr int polls_per_spin_wait = 200;

/// Decides whether a call spins for a moment before it returns to the event loop: after
/// `max_empty_polls` in a row that found nothing, only one call in `calls_per_try` spins.
class spin_wait_policy {
 public:
  bool may_spin() noexcept {
    return empty_polls_ < max_empty_polls || ++empty_polls_ % calls_per_try == 0;
  }
  bool record_hit() noexcept {
    empty_polls_ = 0;
    return true;
  }
  bool record_miss() noexcept {
    ++empty_polls_;
    return false;
  }

 private:
  static constexpr unsigned max_empty_polls = 4, calls_per_try = 32;
  unsigned empty_polls_ = 0;
};

}  // namespace tandem::shm
