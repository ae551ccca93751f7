#pragma once

#include <cstdint>
#include <optional>
#include <tandem/pipeline_schedule.hpp>

#include "pipeline/links.hpp"

namespace tandem::detail {

/// The clock and progress of all ranks of a pipeline, step by step. A rank computes one step at a
/// time, while messages travel. Integers only.
class simulation {
 public:
  /// @param costs  by stage; empty: every step lasts one slot
  simulation(pipeline_placement placement, int ranks, int chunks, std::span<const stage_cost> costs,
             int buffers, message_cost messages = {});

  std::int64_t now() const { return now_; }
  bool idle(int rank) const { return ends_[index(rank)] == not_running; }
  /// Whether an idle rank can begin the step now: its input has arrived, and an output buffer is
  /// free. @pre the steps of each stage and kind are begun in micro-batch order.
  bool ready(int rank, const pipeline_step& step) const {
    return is_due(rank, step) && (!links_ || has_messages(rank, step));
  }
  /// Whether it could begin if the messages in flight had arrived.
  bool is_due(int rank, const pipeline_step& step) const;
  void begin(int rank, const pipeline_step& step);
  /// Advances to the next time at which a step ends or a message arrives, and ends all that do.
  /// False if there is none.
  bool advance();

  int stage(int rank, int chunk) const { return stage_of(placement_, {rank, chunk}, ranks_); }
  /// Micro-batches of a stage after forward, input part and weight part.
  struct progress {
    int forwards = 0;
    int inputs = 0;
    int weights = 0;
  };
  const progress& of(int rank, int chunk) const { return done_[index(stage(rank, chunk))]; }
  int stash(int rank) const;
  int pending_weights(int rank) const;
  std::int64_t cost(int rank, const pipeline_step& step) const;

 private:
  static constexpr std::int64_t not_running = -1;
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  /// The input of a step, and its result: flows of `links`, or none.
  struct step_flows {
    std::optional<int> in, out;
  };
  step_flows flows_of(int rank, const pipeline_step& step) const;
  bool has_messages(int rank, const pipeline_step& step) const;
  void end(int rank);

  pipeline_placement placement_;
  int ranks_, chunks_, stages_;
  std::span<const stage_cost> costs_;
  int buffers_;
  std::int64_t now_ = 0;
  std::vector<progress> done_;        // by stage
  std::vector<pipeline_step> steps_;  // by rank: the one that runs
  std::vector<std::int64_t> ends_;    // by rank
  std::optional<links> links_;        // unless messages take no time
};

}  // namespace tandem::detail
