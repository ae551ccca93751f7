#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tandem::train {

/// Activities of a rank. A send or receive counts while the rank is blocked on it, not while it
/// overlaps computation.
enum class activity : std::int32_t { forward, backward, send, recv, all_reduce, update };
inline constexpr std::size_t activity_count = 6;
std::string_view name(activity what) noexcept;
/// True for activities spent waiting for communication.
bool waits(activity what) noexcept;

/// One interval of a rank's time. Trivially copyable: sent to rank 0 as raw bytes.
struct interval {
  activity what = activity::forward;
  std::int32_t micro_batch = -1;  ///< -1: the whole step
  double begin_us = 0;            ///< since the start of the run
  double end_us = 0;
};

/// One rank's time per activity: sums over the run, and the moments of a few steps.
/// Not thread-safe.
class timeline {
 public:
  using clock = std::chrono::steady_clock;

  /// Sets the time origin; all ranks call it when they leave the same barrier.
  void start() { origin_ = clock::now(); }
  /// From now on keeps moments and sums (true) or only sums (false).
  void keep(bool on) noexcept { keep_ = on; }
  void add(activity what, int micro_batch, clock::time_point begin, clock::time_point end);

  /// Seconds so far in each activity.
  const std::array<double, activity_count>& seconds() const noexcept { return seconds_; }
  /// Seconds so far spent waiting for communication.
  double waited_s() const noexcept;
  double elapsed_s() const { return std::chrono::duration<double>(clock::now() - origin_).count(); }
  const std::vector<interval>& intervals() const noexcept { return intervals_; }

 private:
  clock::time_point origin_ = clock::now();
  bool keep_ = false;
  std::array<double, activity_count> seconds_{};
  std::vector<interval> intervals_;
};

}  // namespace tandem::train
