#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tandem::train {

/// What a rank does with its time. A send or receive counts while the rank's work stands still for
/// it, not while it runs beside the computation.
enum class activity : std::int32_t { forward, backward, send, recv, all_reduce, update };
inline constexpr std::size_t activity_count = 6;
std::string_view name(activity what) noexcept;
/// True for the activities that are waiting for communication.
bool waits(activity what) noexcept;

/// One piece of one rank's time. Trivially copyable: it travels to rank 0 as it is.
struct moment {
  activity what = activity::forward;
  std::int32_t micro_batch = -1;  ///< -1: of the whole step
  double begin_us = 0;            ///< since the common start of the run
  double end_us = 0;
};

/// Where one rank's time went: sums over the run, and the moments of a few steps.
/// One thread at a time.
class timeline {
 public:
  using clock = std::chrono::steady_clock;

  /// From here time counts; all ranks call it when they leave the same barrier.
  void start() { origin_ = clock::now(); }
  /// Keeps the moments of what follows (true) or only their sums.
  void keep(bool on) noexcept { keep_ = on; }
  void add(activity what, int micro_batch, clock::time_point begin, clock::time_point end);

  /// Seconds so far in each activity.
  const std::array<double, activity_count>& seconds() const noexcept { return seconds_; }
  /// Seconds so far in the activities that wait.
  double waited_s() const noexcept;
  double elapsed_s() const { return std::chrono::duration<double>(clock::now() - origin_).count(); }
  const std::vector<moment>& moments() const noexcept { return moments_; }

 private:
  clock::time_point origin_ = clock::now();
  bool keep_ = false;
  std::array<double, activity_count> seconds_{};
  std::vector<moment> moments_;
};

}  // namespace tandem::train
