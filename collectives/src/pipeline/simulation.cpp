#include "pipeline/simulation.hpp"

#include <algorithm>
#include <limits>

namespace tandem::detail {

using kind = pipeline_step::kind;

simulation::simulation(pipeline_placement placement, int ranks, int chunks,
                       std::span<const stage_cost> costs, int buffers, message_cost messages)
    : placement_(placement),
      ranks_(ranks),
      chunks_(chunks),
      stages_(ranks * chunks),
      costs_(costs),
      buffers_(buffers),
      done_(index(stages_)),
      steps_(index(ranks)),
      ends_(index(ranks), not_running) {
  if (messages != message_cost{}) links_.emplace(placement, ranks, chunks, messages, buffers);
}

bool simulation::is_due(int rank, const pipeline_step& step) const {
  const int s = stage(rank, step.chunk);
  const int m = step.micro_batch;
  const bool is_first = s == 0;
  const bool is_last = s + 1 == stages_;
  const progress& own = done_[index(s)];
  switch (step.what) {
    case kind::forward:
      return (is_first || done_[index(s - 1)].forwards > m) &&
             (is_last || m - done_[index(s + 1)].forwards < buffers_);
    case kind::backward:
    case kind::backward_input:
      return own.forwards > m && (is_last || done_[index(s + 1)].inputs > m) &&
             (is_first || m - done_[index(s - 1)].inputs < buffers_);
    case kind::backward_weights:
      break;
  }
  return own.inputs > m;
}

std::int64_t simulation::cost(int rank, const pipeline_step& step) const {
  if (costs_.empty()) return 1;
  const stage_cost& of = costs_[index(stage(rank, step.chunk))];
  switch (step.what) {
    case kind::forward:
      return of.forward;
    case kind::backward:
      return std::int64_t{of.backward_input} + of.backward_weights;
    case kind::backward_input:
      return of.backward_input;
    case kind::backward_weights:
      break;
  }
  return of.backward_weights;
}

void simulation::begin(int rank, const pipeline_step& step) {
  steps_[index(rank)] = step;
  ends_[index(rank)] = now_ + cost(rank, step);
}

simulation::step_flows simulation::flows_of(int rank, const pipeline_step& step) const {
  if (step.what == kind::backward_weights) return {};
  const int s = stage(rank, step.chunk);
  const bool is_forward = step.what == kind::forward;
  const int before = is_forward ? 2 * (s - 1) : 2 * s + 1;
  const int after = is_forward ? 2 * s : 2 * (s - 1) + 1;
  const auto remote = [this](int flow) {
    const bool exists = flow >= 0 && flow < 2 * stages_;
    return exists && links_->is_remote(flow) ? std::optional(flow) : std::nullopt;
  };
  return {remote(before), remote(after)};
}

bool simulation::has_messages(int rank, const pipeline_step& step) const {
  const step_flows of = flows_of(rank, step);
  return (!of.in || links_->arrived(*of.in) > step.micro_batch) &&
         (!of.out || links_->has_buffer(*of.out, step.micro_batch));
}

void simulation::end(int rank) {
  ends_[index(rank)] = not_running;
  const pipeline_step& step = steps_[index(rank)];
  progress& of = done_[index(stage(rank, step.chunk))];
  of.forwards += step.what == kind::forward ? 1 : 0;
  of.inputs += step.what == kind::backward || step.what == kind::backward_input ? 1 : 0;
  of.weights += step.what == kind::backward || step.what == kind::backward_weights ? 1 : 0;
  if (!links_) return;
  const step_flows flows = flows_of(rank, step);
  if (flows.in) links_->consumed(*flows.in, now_);
  if (flows.out) links_->produced(*flows.out, now_);
}

bool simulation::advance() {
  constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
  std::int64_t next = links_ ? links_->next_event().value_or(never) : never;
  for (const std::int64_t end : ends_) {
    if (end != not_running) next = std::min(next, end);
  }
  if (next == never) return false;
  now_ = next;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (ends_[index(rank)] == now_) end(rank);
  }
  if (links_) links_->advance(now_);
  return true;
}

int simulation::stash(int rank) const {
  int count = 0;
  for (int c = 0; c < chunks_; ++c) count += of(rank, c).forwards - of(rank, c).weights;
  return count;
}

int simulation::pending_weights(int rank) const {
  int count = 0;
  for (int c = 0; c < chunks_; ++c) count += of(rank, c).inputs - of(rank, c).weights;
  return count;
}

}  // namespace tandem::detail
