#include "model/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tandem::train {

double learning_rate(const learning_rate_schedule& schedule, int step) {
  if (step < schedule.warmup_steps) return schedule.peak * step / schedule.warmup_steps;
  if (step >= schedule.steps) return schedule.floor;
  const double progress =
      static_cast<double>(step - schedule.warmup_steps) / (schedule.steps - schedule.warmup_steps);
  return schedule.floor +
         (schedule.peak - schedule.floor) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

double clip_scale(std::span<const double> squared_norms, double max_norm) {
  double sum = 0;
  for (const double squared : squared_norms) sum += squared;
  const double norm = std::sqrt(sum);
  return max_norm > 0 && norm > max_norm ? max_norm / norm : 1;
}

}  // namespace tandem::train
