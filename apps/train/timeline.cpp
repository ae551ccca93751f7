#include "timeline.hpp"

#include <algorithm>
#include <utility>

namespace tandem::train {

std::string_view name(activity what) noexcept {
  switch (what) {
    case activity::forward:
      return "forward";
    case activity::backward:
      return "backward";
    case activity::send:
      return "send wait";
    case activity::recv:
      return "receive wait";
    case activity::all_reduce:
      return "all-reduce";
    case activity::update:
      return "update";
    case activity::backward_weights:
      return "weight gradients";
  }
  return "unknown";
}

bool waits(activity what) noexcept {
  return what == activity::send || what == activity::recv || what == activity::all_reduce;
}

void timeline::add(activity what, int micro_batch, clock::time_point begin, clock::time_point end) {
  seconds_[static_cast<std::size_t>(what)] += std::chrono::duration<double>(end - begin).count();
  if (!keep_) return;
  intervals_.push_back({what, micro_batch, since_us(begin), since_us(end)});
}

void timeline::add_pipeline(clock::time_point begin, clock::time_point end) {
  const double computed_s = this->computed_s();
  const double busy_us = 1e6 * (computed_s - std::exchange(computed_s_, computed_s));
  if (!std::exchange(has_warmed_up_, true) || pipeline_runs_.size() == max_pipeline_runs) return;
  pipeline_runs_.push_back({since_us(begin), since_us(end), busy_us});
}

double timeline::computed_s() const noexcept {
  double sum = 0;
  for (const activity what : {activity::forward, activity::backward, activity::backward_weights}) {
    sum += seconds_[static_cast<std::size_t>(what)];
  }
  return sum;
}

double timeline::waited_s() const noexcept {
  double sum = 0;
  for (std::size_t i = 0; i < activity_count; ++i) {
    if (waits(static_cast<activity>(i))) sum += seconds_[i];
  }
  return sum;
}

double measured_bubble(const std::vector<std::vector<pipeline_run>>& ranks, int stages) {
  const auto size = static_cast<std::size_t>(stages);
  double total_us = 0;
  double busy_us = 0;
  for (std::size_t first = 0; first + size <= ranks.size(); first += size) {
    for (std::size_t run = 0; run < ranks[first].size(); ++run) {
      double begin_us = ranks[first][run].begin_us;
      double end_us = ranks[first][run].end_us;
      for (std::size_t r = first; r < first + size; ++r) {
        if (run >= ranks[r].size()) return 0;
        begin_us = std::min(begin_us, ranks[r][run].begin_us);
        end_us = std::max(end_us, ranks[r][run].end_us);
        busy_us += ranks[r][run].busy_us;
      }
      total_us += (end_us - begin_us) * stages;
    }
  }
  return total_us > 0 ? std::max(1 - busy_us / total_us, 0.0) : 0;
}

}  // namespace tandem::train
