#pragma once

#include "model/aligned_array.hpp"
#include "model/layer.hpp"
#include "model/stage.hpp"

namespace tandem::train {

inline constexpr int unused = -1;

/// The stash of one micro-batch.
template <class Scalar>
struct slot {
  int micro_batch = unused;
  std::vector<std::uint8_t> tokens;  ///< first stage
  std::vector<layer_stash<Scalar>> layers;
  std::vector<layer_gradients<Scalar>> pending;  ///< by layer; empty unless backwards are split
  aligned_array<Scalar> normed, inverse;         ///< last stage: output of the final norm
  aligned_array<Scalar> logit_gradient;
};

/// Implementation of a stage, including embedding and head of the model.
template <class Scalar>
struct basic_stage<Scalar>::state {
  state(const model_config& config, const stage_options& options);

  void lay_out_parameters();
  void bind_weights();
  void make_slots();

  slot<Scalar>& slot_of(int micro_batch) {
    return slots[static_cast<std::size_t>(micro_batch % options.stash)];
  }
  void embed(std::span<const std::uint8_t> tokens);
  void embed_backward(std::span<const std::uint8_t> tokens);
  double head(slot<Scalar>& slot, std::span<const std::uint8_t> targets);
  void head_backward(slot<Scalar>& slot);
  void head_backward_weights(slot<Scalar>& slot);
  /// Both parts, or the input part only.
  void backward(int micro_batch, std::span<const Scalar> gradient_out,
                std::span<Scalar> gradient_in, bool splits);

  model_config config;
  stage_options options;
  layer_shape shape;
  bool first, last;
  bool holds_both_uses;  ///< of a tied embedding: as input and as head
  std::size_t table_size = 0;

  std::vector<parameter<Scalar>> parameters;
  std::vector<bool> decays;  ///< weight decay applies, for each parameter
  aligned_array<Scalar> values, gradients, first_moments, second_moments;

  weight<Scalar> embedding, final_norm, head_matrix;
  std::vector<layer_weights<Scalar>> layers;
  std::vector<slot<Scalar>> slots;
  workspace<Scalar> work;

  double gradient_scale = 0;  ///< 1 / tokens of the batch; 0 before the first step
  int next_backward = 0;
  int next_weights = 0;
  bool finished = false;
};

}  // namespace tandem::train
