#pragma once

namespace tandem::shm {

/// About a microsecond: the time that a peer which is also polling takes to reply.
constexpr int looks_while_lingering = 200;

/// Decides whether a call spins for a moment before it returns to the event loop: after
/// `max_empty_polls` in a row that found nothing, only one call in `calls_per_try` spins.
class lingering {
 public:
  bool may_try() noexcept { return in_vain_ < most_in_vain || ++in_vain_ % calls_for_one == 0; }
  bool caught() noexcept {
    in_vain_ = 0;
    return true;
  }
  bool missed() noexcept {
    ++in_vain_;
    return false;
  }

 private:
  static constexpr unsigned most_in_vain = 4, calls_for_one = 32;
  unsigned in_vain_ = 0;
};

}  // namespace tandem::shm
