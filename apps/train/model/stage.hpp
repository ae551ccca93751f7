#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/config.hpp"
#include "model/optimizer.hpp"

namespace tandem::train {

struct stage_options {
  int first_layer = 0;
  int last_layer = 0;  ///< one past the last: the stage is [first_layer, last_layer)
  std::uint64_t seed = 1;
  int sequences = 1;             ///< per micro-batch
  int sequence_length = 0;       ///< 0: the model's default
  int stash = 1;                 ///< maximum of micro-batches between forward and backward
  bool splits_backward = false;  ///< keeps memory for weight parts that come later
};

/// One tensor of a stage. For a tied embedding, `gradient` is the part from this stage's use of it.
template <class Scalar>
struct parameter {
  std::string name;
  int position;  ///< in model_tensors() and so in the table of squared norms
  std::span<Scalar> value;
  std::span<Scalar> gradient;
};

/// Input of a stage for one micro-batch: tokens into the first, activations [tokens x dim] into
/// others, and targets (the token that follows each) into the last. Tokens go sequence by sequence.
template <class Scalar>
struct stage_input {
  std::span<const std::uint8_t> tokens = {};
  std::span<const Scalar> activations = {};
  std::span<const std::uint8_t> targets = {};
};

/// The layers [first, last) of a model, with the embedding if first is 0, and the final norm, head
/// and cross-entropy if last is the end: forward, backward and AdamW, on one core, in memory
/// allocated once.
///
/// However a model is cut into stages, the same seed and data give the same bits of every loss and
/// parameter, if each step runs: begin_step; forward and backward of all micro-batches, backward in
/// the order 0, 1, 2...; (sum gradients() over data-parallel replicas;) exchange tied_gradient()
/// between the two ends of a pipeline; finish_gradients; sum squared_norms() over the stages;
/// apply. Loss sums are to be added in micro-batch order.
///
/// Wrong sizes throw std::invalid_argument and change nothing, a call out of this order throws
/// std::logic_error. Not thread-safe. `basic_stage<double>` serves gradient checks.
template <class Scalar>
class basic_stage {
 public:
  basic_stage(const model_config& config, const stage_options& options);
  ~basic_stage();
  basic_stage(basic_stage&&) noexcept;
  basic_stage& operator=(basic_stage&&) noexcept;

  bool is_first() const;
  bool is_last() const;
  int tokens() const;  ///< per micro-batch
  std::size_t activations()
      const;  ///< values into or out of the stage per micro-batch: tokens * dim

  /// Zeroes the gradients and forgets stashed micro-batches. `batch_tokens`: tokens of the whole
  /// batch, over all micro-batches and replicas; gradients are those of the loss sum divided by it.
  void begin_step(std::int64_t batch_tokens);

  /// Runs micro-batch number `micro_batch` of the step and stashes what backward needs. Fills
  /// `activations_out`, or on the last stage (where it is empty) returns the sum of the loss over
  /// the micro-batch's tokens; 0 elsewhere.
  double forward(int micro_batch, const stage_input<Scalar>& input,
                 std::span<Scalar> activations_out = {});

  /// Adds the micro-batch's gradients and frees its stash. `gradient_out` is the gradient of the
  /// outgoing activations (empty on the last stage), `gradient_in` receives that of the incoming
  /// ones (empty on the first).
  void backward(int micro_batch, std::span<const Scalar> gradient_out = {},
                std::span<Scalar> gradient_in = {});

  /// The same in two parts, with the same bits. The input part fills `gradient_in`; the weight part
  /// adds to most gradients and frees the stash. Weight parts come in the order 0, 1, 2... as well,
  /// and a whole backward after those of all earlier micro-batches.
  void backward_input(int micro_batch, std::span<const Scalar> gradient_out = {},
                      std::span<Scalar> gradient_in = {});
  void backward_weights(int micro_batch);

  const std::vector<parameter<Scalar>>& parameters() const;
  /// All values, and all gradients, each in one contiguous array (for buckets); tensors are padded
  /// with zeros to 64 bytes. A stage that holds both uses of a tied embedding has a gradient for
  /// each.
  std::span<Scalar> values();
  std::span<Scalar> gradients();

  /// The part of the tied embedding's gradient that the pipeline's other end needs; empty when the
  /// embedding is not tied, in a stage in the middle, and in a stage that is both ends.
  std::span<const Scalar> tied_gradient() const;

  /// Ends the step's gradients: adds the other end's tied_gradient() to this end's. The sum of two
  /// numbers has the same bits in either order, so both copies of the embedding stay equal. Call on
  /// every stage, with an empty span where tied_gradient() is empty.
  void finish_gradients(std::span<const Scalar> tied_gradient_of_other_end = {});

  /// The squared norm of each tensor's gradient at the tensor's position in the whole model; 0 for
  /// tensors of other stages (a tied embedding counts on the first). Adding the stages' tables is
  /// exact.
  std::vector<double> squared_norms() const;

  /// What a step changes: values and moments.
  struct snapshot {
    std::vector<Scalar> values, first_moments, second_moments;
  };
  void save(snapshot& into) const;
  /// @pre `from` was saved by a stage of the same layers.
  void restore(const snapshot& from);

  /// AdamW with the gradients times `clip_scale`. `step` counts from 1.
  void apply(int step, double learning_rate, double clip_scale, const adamw_options& options = {});

 private:
  struct state;
  std::unique_ptr<state> state_;
};

extern template class basic_stage<float>;
extern template class basic_stage<double>;

using model_stage = basic_stage<float>;

/// Null if this CPU can run the model's kernels; otherwise a line that names the missing
/// instruction sets and what to do. Call before the first basic_stage is constructed: without them
/// the kernels raise an illegal instruction.
const char* unsupported_processor();

}  // namespace tandem::train
