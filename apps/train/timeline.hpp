#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tandem::train {

/// Activities of a rank. A send or receive counts while the rank is blocked on it, not while it
/// overlaps computation.
/// backward is the input part alone where backwards are split.
enum class activity : std::int32_t {
  forward,
  backward,
  send,
  recv,
  all_reduce,
  update,
  backward_weights
};
inline constexpr std::size_t activity_count = 7;
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

/// One run of the pipeline on a rank. Trivially copyable, as interval.
struct pipeline_run {
  double begin_us = 0;  ///< since the start of the run
  double end_us = 0;
  double busy_us = 0;  ///< computing
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

  /// A run of the pipeline, whose activities have been added since the last one. Kept from the
  /// second on, which is the first after the warm-up, up to `max_pipeline_runs`.
  void add_pipeline(clock::time_point begin, clock::time_point end);
  static constexpr std::size_t max_pipeline_runs = 1000;
  const std::vector<pipeline_run>& pipeline_runs() const noexcept { return pipeline_runs_; }

  /// Seconds so far in each activity.
  const std::array<double, activity_count>& seconds() const noexcept { return seconds_; }
  /// Seconds so far spent waiting for communication.
  double waited_s() const noexcept;
  /// Seconds so far spent computing forwards and backwards.
  double computed_s() const noexcept;
  double elapsed_s() const { return std::chrono::duration<double>(clock::now() - origin_).count(); }
  const std::vector<interval>& intervals() const noexcept { return intervals_; }

 private:
  double since_us(clock::time_point at) const {
    return std::chrono::duration<double, std::micro>(at - origin_).count();
  }

  clock::time_point origin_ = clock::now();
  bool keep_ = false;
  std::array<double, activity_count> seconds_{};
  std::vector<interval> intervals_;
  std::vector<pipeline_run> pipeline_runs_;
  double computed_s_ = 0;  ///< up to the end of the last run of the pipeline
  bool has_warmed_up_ = false;
};

/// The part of the time of all ranks' runs in which they do not compute: a run of a pipeline lasts
/// from the begin of its first rank to the end of its last.
/// @param ranks  of one pipeline after the other, `stages` each
double measured_bubble(const std::vector<std::vector<pipeline_run>>& ranks, int stages);

}  // namespace tandem::train
