#include <algorithm>
#include <optional>

#include "pipeline/orders.hpp"
#include "pipeline/simulation.hpp"

namespace tandem::detail {
namespace {

using kind = pipeline_step::kind;

/// What a rank prefers among the steps that it can begin.
struct priorities {
  bool late_chunk_first = true;  ///< input parts: of chunk 1 before chunk 0
  bool weights_at_once = false;  ///< a weight part before the next forward
  int reserve = 1;               ///< places of the stash that chunk 0 leaves free
};

/// List scheduling: whenever a rank is idle it begins the step that it prefers among those that
/// are ready, under the limit of its stash.
class list_scheduler {
 public:
  list_scheduler(const pipeline_shape& shape, std::span<const stage_cost> costs, int max_stash,
                 priorities by)
      : micro_batches_(shape.micro_batches),
        max_stash_(max_stash),
        by_(by),
        clock_(pipeline_placement::v, shape.ranks, 2, costs, pipeline_buffers) {
    made_.placement = pipeline_placement::v;
    made_.chunks = 2;
    made_.micro_batches = shape.micro_batches;
    made_.ranks.resize(static_cast<std::size_t>(shape.ranks));
  }

  pipeline_schedule run() {
    do {
      for (int rank = 0; rank < made_.size(); ++rank) {
        if (!clock_.idle(rank)) continue;
        const std::optional<pipeline_step> next = choose(rank);
        if (!next) continue;
        clock_.begin(rank, *next);
        made_.ranks[static_cast<std::size_t>(rank)].push_back(*next);
      }
    } while (clock_.advance());
    return std::move(made_);
  }

 private:
  std::optional<pipeline_step> choose(int rank) const {
    const int first = by_.late_chunk_first ? 1 : 0;
    for (const int chunk : {first, 1 - first}) {
      const auto step = ready(rank, {kind::backward_input, clock_.of(rank, chunk).inputs, chunk});
      if (step) return step;
    }
    if (by_.weights_at_once) {
      if (const auto step = weights(rank)) return step;
    }
    // Chunk 0 leaves places free for chunk 1, which alone ends with backwards that free any: the
    // oldest micro-batch always finds a place on every rank, so no limit can block all of them.
    const int stashed = clock_.stash(rank);
    const int early = clock_.of(rank, 0).forwards - clock_.of(rank, 0).weights;
    for (const int chunk : {1, 0}) {
      if (stashed >= max_stash_ || (chunk == 0 && early >= max_stash_ - by_.reserve)) continue;
      const auto step = ready(rank, {kind::forward, clock_.of(rank, chunk).forwards, chunk});
      if (step) return step;
    }
    return weights(rank);
  }

  std::optional<pipeline_step> weights(int rank) const {
    for (const int chunk : {1, 0}) {
      const auto step =
          ready(rank, {kind::backward_weights, clock_.of(rank, chunk).weights, chunk});
      if (step) return step;
    }
    return std::nullopt;
  }

  std::optional<pipeline_step> ready(int rank, const pipeline_step& step) const {
    if (step.micro_batch >= micro_batches_ || !clock_.ready(rank, step)) return std::nullopt;
    return step;
  }

  int micro_batches_;
  int max_stash_;
  priorities by_;
  simulation clock_;
  pipeline_schedule made_;
};

}  // namespace

pipeline_schedule make_v_uneven(const pipeline_shape& shape) {
  std::vector<stage_cost> costs = shape.costs;
  if (costs.empty()) costs.resize(2 * static_cast<std::size_t>(shape.ranks));
  const int max_stash = shape.max_stash > 0 ? shape.max_stash : 2 * shape.ranks;

  pipeline_schedule best{pipeline_placement::v, 2, shape.micro_batches, {}};
  for (int rank = 0; rank < shape.ranks; ++rank) {
    best.ranks.push_back(zb_v_order(rank, shape.ranks, shape.micro_batches));
  }
  schedule_check of_best = check(best, costs);
  bool within_limit =
      *std::max_element(of_best.peak_stash.begin(), of_best.peak_stash.end()) <= max_stash;
  for (const bool late_chunk_first : {true, false}) {
    for (const bool weights_at_once : {false, true}) {
      for (const int reserve : {1, std::max(max_stash / 2, 1)}) {
        const priorities by{late_chunk_first, weights_at_once, reserve};
        pipeline_schedule made = list_scheduler(shape, costs, max_stash, by).run();
        const schedule_check of_made = check(made, costs);
        if (!of_made.problem.empty()) continue;
        if (within_limit && of_made.slots >= of_best.slots) continue;
        best = std::move(made);
        of_best = of_made;
        within_limit = true;
      }
    }
  }
  return best;
}

}  // namespace tandem::detail
