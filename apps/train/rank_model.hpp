#pragma once

#include <optional>
#include <span>
#include <vector>

#include "job.hpp"
#include "model/stage.hpp"

namespace tandem::train {

/// The chunks of the model that one rank holds.
class rank_model {
 public:
  /// @param all  the job's schedule: how many micro-batches each chunk stashes
  rank_model(const job& what, int rank, const pipeline_schedule& all);

  std::vector<basic_stage<float>>& chunks() noexcept { return chunks_; }
  basic_stage<float>& chunk(int number) { return chunks_[static_cast<std::size_t>(number)]; }
  const basic_stage<float>& chunk(int number) const {
    return chunks_[static_cast<std::size_t>(number)];
  }
  int tokens() const { return chunks_.front().tokens(); }  ///< per micro-batch
  std::size_t activations() const { return chunks_.front().activations(); }
  std::uint64_t parameters() const;

  void begin_step(std::int64_t batch_tokens);
  /// The gradient of the tied embedding that the other end of the pipeline needs; empty if it is
  /// not tied, if this rank holds no end of the model, and if it holds both.
  std::span<const float> tied_gradient() const;
  /// Ends the step's gradients. @param tied_of_other_end  as long as `tied_gradient`
  void finish_gradients(std::span<const float> tied_of_other_end);
  /// The squared norm of each tensor of the whole model, 0 for those of other ranks.
  std::vector<double> squared_norms() const;
  /// Keeps what `apply` changes, so that `roll_back` can undo the last one.
  void save();
  /// @pre `save` was called before the last `apply`.
  void roll_back();
  void apply(int step, double learning_rate, double clip_scale);
  /// Adds the gradients of the replica just computed to those of the previous ones, of which this
  /// is number `replica` of `count`; after the last, the gradients are the sum.
  void accumulate(int replica, int count);

 private:
  std::vector<basic_stage<float>> chunks_;
  std::vector<basic_stage<float>::snapshot> saved_;  ///< by chunk
  std::vector<std::vector<float>> accumulated_;      ///< by chunk: gradients of earlier replicas
};

}  // namespace tandem::train
