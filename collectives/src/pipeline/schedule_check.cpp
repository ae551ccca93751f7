#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <tandem/pipeline_schedule.hpp>
#include <utility>

#include "pipeline/simulation.hpp"

namespace tandem {
namespace {

using kind = pipeline_step::kind;

std::string step_text(const pipeline_step& step, int chunks) {
  std::string text = fmt::format("{} of micro-batch {}", name(step.what), step.micro_batch);
  if (chunks > 1) text += fmt::format(" in chunk {}", step.chunk);
  return text;
}

/// Checks that every micro-batch has one forward, one input part and one weight part in each chunk,
/// each of them in order and none before what it needs. Returns the problem; empty if there is
/// none.
std::string check_order(const pipeline_steps& steps, int chunks, int micro_batches) {
  std::vector<detail::simulation::progress> all(static_cast<std::size_t>(chunks));
  for (const pipeline_step& step : steps) {
    if (step.what > kind::backward_weights) return "a step of no known kind";
    if (step.chunk < 0 || step.chunk >= chunks)
      return fmt::format("a step of chunk {}, but there are {}", step.chunk, chunks);
    detail::simulation::progress& of = all[static_cast<std::size_t>(step.chunk)];
    const bool computes_input = step.what == kind::backward || step.what == kind::backward_input;
    const bool computes_weights =
        step.what == kind::backward || step.what == kind::backward_weights;
    const int due = step.what == kind::forward            ? of.forwards
                    : step.what == kind::backward_weights ? of.weights
                                                          : of.inputs;
    if (step.micro_batch != due)
      return fmt::format("{} where {} is expected", step_text(step, chunks), due);
    if (computes_weights && of.weights != due)
      return fmt::format("{} before the weight part of {}", step_text(step, chunks), of.weights);
    of.forwards += step.what == kind::forward ? 1 : 0;
    of.inputs += computes_input ? 1 : 0;
    of.weights += computes_weights ? 1 : 0;
    if (of.inputs > of.forwards)
      return fmt::format("{} before its forward", step_text(step, chunks));
    if (of.weights > of.inputs)
      return fmt::format("{} before its input part", step_text(step, chunks));
  }
  for (const detail::simulation::progress& of : all) {
    if (of.forwards == micro_batches && of.inputs == micro_batches && of.weights == micro_batches)
      continue;
    std::string text = fmt::format("{} forwards and {} backwards of {} micro-batches", of.forwards,
                                   of.inputs, micro_batches);
    if (of.weights != of.inputs) text += fmt::format(", {} weight parts", of.weights);
    return text;
  }
  return {};
}

std::string check_numbers(const pipeline_schedule& all) {
  if (all.chunks < 1 || all.micro_batches < 0 || all.ranks.empty() ||
      all.ranks.size() > max_pipeline_stages || all.chunks > max_pipeline_stages ||
      std::int64_t{all.size()} * all.chunks > max_pipeline_stages) {
    return fmt::format("{} ranks with {} chunks of {} micro-batches", all.ranks.size(), all.chunks,
                       all.micro_batches);
  }
  return {};
}

std::string deadlock_text(const pipeline_schedule& all,
                          const std::vector<std::vector<std::int64_t>>& begun) {
  std::string text = "deadlock between the ranks:";
  for (std::size_t r = 0; r < begun.size(); ++r) {
    const std::size_t next = begun[r].size();
    if (next == all.ranks[r].size()) continue;
    text += fmt::format(" rank {} at {};", r, step_text(all.ranks[r][next], all.chunks));
  }
  text.pop_back();
  return text;
}

double idle_part(std::int64_t busy, std::int64_t all) {
  return all == 0 ? 0 : 1 - static_cast<double>(busy) / static_cast<double>(all);
}

}  // namespace

double schedule_check::bubble(int rank) const {
  return idle_part(busy_slots[static_cast<std::size_t>(rank)], slots);
}

double schedule_check::bubble() const {
  return idle_part(std::accumulate(busy_slots.begin(), busy_slots.end(), std::int64_t{0}),
                   slots * static_cast<std::int64_t>(busy_slots.size()));
}

schedule_check check(const pipeline_schedule& all, std::span<const stage_cost> costs, int buffers,
                     message_cost messages) {
  schedule_check result;
  const std::size_t ranks = all.ranks.size();
  result.problem = check_numbers(all);
  if (!result.problem.empty()) return result;
  result.chunk_stash.assign(ranks, std::vector<int>(static_cast<std::size_t>(all.chunks)));
  result.peak_stash.resize(ranks);
  result.peak_weights.resize(ranks);
  result.begin_slots.resize(ranks);
  result.busy_slots.resize(ranks);
  result.message_slots.resize(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::string wrong = check_order(all.ranks[r], all.chunks, all.micro_batches);
    if (wrong.empty()) continue;
    result.problem = fmt::format("rank {}: {}", r, wrong);
    return result;
  }

  detail::simulation clock(all.placement, all.size(), all.chunks, costs, buffers, messages);
  std::vector<std::optional<std::int64_t>> due(ranks);  // since when only messages are missing
  std::size_t left = 0;
  for (const pipeline_steps& steps : all.ranks) left += steps.size();
  do {
    for (int rank = 0; rank < all.size(); ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      if (!clock.idle(rank)) continue;
      for (int c = 0; c < all.chunks; ++c) {
        const detail::simulation::progress& of = clock.of(rank, c);
        int& peak = result.chunk_stash[r][static_cast<std::size_t>(c)];
        peak = std::max(peak, of.forwards - of.weights);
      }
      result.peak_stash[r] = std::max(result.peak_stash[r], clock.stash(rank));
      result.peak_weights[r] = std::max(result.peak_weights[r], clock.pending_weights(rank));
      if (result.begin_slots[r].size() == all.ranks[r].size()) continue;
      const pipeline_step& step = all.ranks[r][result.begin_slots[r].size()];
      if (!due[r] && clock.is_due(rank, step)) due[r] = clock.now();
      if (!clock.ready(rank, step)) continue;
      result.message_slots[r] += clock.now() - *std::exchange(due[r], std::nullopt);
      clock.begin(rank, step);
      result.begin_slots[r].push_back(clock.now());
      result.busy_slots[r] += clock.cost(rank, step);
      --left;
    }
  } while (clock.advance());
  result.slots = clock.now();
  if (left > 0) result.problem = deadlock_text(all, result.begin_slots);
  return result;
}

std::string_view name(pipeline_limit limit) noexcept {
  constexpr std::string_view names[] = {"compute", "bubble", "link"};
  return names[static_cast<std::size_t>(limit)];
}

pipeline_limit pipeline_prediction::decides() const noexcept {
  if (20 * (bubble_slots + link_slots) < simulated.slots) return pipeline_limit::compute;
  return link_slots > bubble_slots ? pipeline_limit::link : pipeline_limit::bubble;
}

pipeline_prediction predict(const pipeline_schedule& all, std::span<const stage_cost> costs,
                            message_cost messages) {
  pipeline_prediction found{check(all, costs, pipeline_buffers, messages)};
  const std::vector<std::int64_t>& busy = found.simulated.busy_slots;
  if (!found.simulated.problem.empty() || busy.empty()) return found;
  const std::int64_t at_once = check(all, costs).slots;
  found.compute_slots = *std::max_element(busy.begin(), busy.end());
  found.bubble_slots = at_once - found.compute_slots;
  found.link_slots = found.simulated.slots - at_once;
  return found;
}

}  // namespace tandem
