#include "rank_model.hpp"

#include <algorithm>

namespace tandem::train {

rank_model::rank_model(const job& what, int rank, const pipeline_schedule& all) {
  const auto stage = static_cast<std::size_t>(what.who.at(rank).stage);
  const schedule_check simulated = check(all);
  const pipeline_steps& steps = all.ranks[stage];
  const bool splits = std::any_of(steps.begin(), steps.end(), [](const pipeline_step& step) {
    return step.what == pipeline_step::backward_weights;
  });
  for (int chunk = 0; chunk < all.chunks; ++chunk) {
    const layer_range layers = what.who.layers_of(rank, chunk);
    const int stash = simulated.chunk_stash[stage][static_cast<std::size_t>(chunk)];
    chunks_.emplace_back(what.model,
                         stage_options{.first_layer = layers.first,
                                       .last_layer = layers.first + layers.count,
                                       .seed = static_cast<std::uint64_t>(what.requested.seed),
                                       .sequences = what.sequences(),
                                       .sequence_length = what.sequence(),
                                       .stash = stash,
                                       .splits_backward = splits});
  }
  accumulated_.resize(chunks_.size());
}

std::uint64_t rank_model::parameters() const {
  std::uint64_t count = 0;
  for (const basic_stage<float>& chunk : chunks_) {
    for (const parameter<float>& one : chunk.parameters()) count += one.value.size();
  }
  return count;
}

void rank_model::begin_step(std::int64_t batch_tokens) {
  for (basic_stage<float>& chunk : chunks_) chunk.begin_step(batch_tokens);
}

std::span<const float> rank_model::tied_gradient() const {
  std::span<const float> found;
  for (const basic_stage<float>& chunk : chunks_) {
    const std::span<const float> tied = chunk.tied_gradient();
    if (tied.empty()) continue;
    if (!found.empty()) return {};  // both ends
    found = tied;
  }
  return found;
}

void rank_model::finish_gradients(std::span<const float> tied_of_other_end) {
  std::vector<basic_stage<float>*> ends;
  for (basic_stage<float>& chunk : chunks_) {
    if (chunk.tied_gradient().empty()) {
      chunk.finish_gradients();
    } else {
      ends.push_back(&chunk);
    }
  }
  if (ends.size() == 1) ends[0]->finish_gradients(tied_of_other_end);
  if (ends.size() != 2) return;
  const std::span<const float> of_first = ends[0]->tied_gradient();
  const std::vector<float> before(of_first.begin(), of_first.end());
  ends[0]->finish_gradients(ends[1]->tied_gradient());
  ends[1]->finish_gradients(before);
}

std::vector<double> rank_model::squared_norms() const {
  std::vector<double> sum = chunks_.front().squared_norms();
  for (std::size_t i = 1; i < chunks_.size(); ++i) {
    const std::vector<double> more = chunks_[i].squared_norms();
    std::transform(sum.begin(), sum.end(), more.begin(), sum.begin(), std::plus<>());
  }
  return sum;
}

void rank_model::save() {
  saved_.resize(chunks_.size());
  for (std::size_t i = 0; i < chunks_.size(); ++i) chunks_[i].save(saved_[i]);
}

void rank_model::roll_back() {
  for (std::size_t i = 0; i < saved_.size(); ++i) chunks_[i].restore(saved_[i]);
}

void rank_model::apply(int step, double learning_rate, double clip_scale) {
  for (basic_stage<float>& chunk : chunks_) chunk.apply(step, learning_rate, clip_scale);
}

void rank_model::accumulate(int replica, int count) {
  if (count == 1) return;
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    const std::span<float> fresh = chunks_[i].gradients();
    std::vector<float>& sum = accumulated_[i];
    if (replica == 0) {
      sum.assign(fresh.begin(), fresh.end());
    } else {
      for (std::size_t k = 0; k < fresh.size(); ++k) sum[k] += fresh[k];
    }
    if (replica + 1 == count) std::copy(sum.begin(), sum.end(), fresh.begin());
  }
}

}  // namespace tandem::train
