#pragma once

namespace tandem::shm {

/// About a microsecond: as long as a peer that waits for us, too, takes to answer.
constexpr int looks_while_lingering = 200;

/// Whether it pays to look for a moment before others get the loop: after some in a row that found
/// nothing, only one in many is tried.
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
