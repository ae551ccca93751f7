#pragma once

#include <span>

namespace tandem::train {

/// AdamW (Loshchilov and Hutter, 1711.05101). Weight decay is decoupled from the gradient and not
/// applied to norms and biases.
struct adamw_options {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
};

/// Linear warm-up to `peak`, then half a cosine down to `floor` at the last step.
struct learning_rate_schedule {
  double peak = 3e-3;
  double floor = 3e-4;
  int warmup_steps = 0;
  int steps = 1;
};

/// The rate of step 1, 2, ... `schedule.steps`; `floor` after the last.
double learning_rate(const learning_rate_schedule& schedule, int step);

/// The factor that scales the gradients to a norm over the whole model of at most `max_norm`
/// (at most 1; exactly 1 when `max_norm` is 0: no clipping). `squared_norms` is the table of
/// basic_stage::squared_norms() summed over all stages; it is added up in table order, so every
/// rank gets the same bits.
double clip_scale(std::span<const double> squared_norms, double max_norm);

}  // namespace tandem::train
