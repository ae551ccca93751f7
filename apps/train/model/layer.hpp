#pragma once

#include "model/aligned_array.hpp"
#include "model/config.hpp"
#include "model/kernels/kernels.hpp"

namespace tandem::train {

/// A tensor's values and their gradient; both null for a bias that the model does not have.
template <class Scalar>
struct weight {
  Scalar* value = nullptr;
  Scalar* gradient = nullptr;
};

/// In the order of model_tensors().
template <class Scalar>
struct layer_weights {
  weight<Scalar> attention_norm;
  weight<Scalar> query, query_bias, key, key_bias, value, value_bias;
  weight<Scalar> output;
  weight<Scalar> mlp_norm;
  weight<Scalar> gate, up, down;
};

struct layer_shape {
  kernels::index tokens;  ///< per micro-batch
  kernels::index dim;
  kernels::index kv_dim;
  kernels::index hidden;
  double norm_epsilon;
  kernels::attention_shape attention;
};

layer_shape shape_of(const model_config& config, int sequences, int sequence_length);

/// What one layer's backward pass needs from its forward pass, for one micro-batch.
template <class Scalar>
struct layer_stash {
  explicit layer_stash(const layer_shape& shape);

  aligned_array<Scalar> attention_normed, attention_inverse;
  aligned_array<Scalar> q, k;  ///< rotated, head-major
  aligned_array<Scalar> v;
  aligned_array<Scalar> probabilities;
  aligned_array<Scalar> mixed;  ///< values mixed by the probabilities
  aligned_array<Scalar> mlp_normed, mlp_inverse;
  aligned_array<Scalar> gate, up;
};

/// What the weight part of one layer's backward needs beside the stash, for one micro-batch: the
/// gradients of the outputs of its matrices.
template <class Scalar>
struct layer_gradients {
  explicit layer_gradients(const layer_shape& shape);

  aligned_array<Scalar> mlp_output, act, gate, up;            ///< act: input of the down projection
  aligned_array<Scalar> attention_output, query, key, value;  ///< token-major
};

/// Scratch memory shared by all layers of a stage, used by one layer at a time.
template <class Scalar>
struct workspace {
  workspace(const layer_shape& shape, double rope_theta);

  aligned_array<Scalar> cosine, sine;  ///< [length x head_dim / 2]
  aligned_array<Scalar> residual;      ///< the residual stream, in and out of each layer's forward
  aligned_array<Scalar> residual_gradient;  ///< its gradient, in and out of each layer's backward
  aligned_array<Scalar> input, input_gradient;   ///< input of a block's matrices, after the norm
  aligned_array<Scalar> q, k, mixed_gradient;    ///< token-major
  aligned_array<Scalar> q_gradient, k_gradient;  ///< head-major
  aligned_array<Scalar> scores;
  layer_gradients<Scalar> gradients;  ///< of the layer whose backward runs, unless it is split
};

/// Forward pass of one layer, in place on `work.residual`.
template <class Scalar>
void layer_forward(const layer_shape& shape, const layer_weights<Scalar>& weights,
                   layer_stash<Scalar>& stash, workspace<Scalar>& work);

/// Backward pass, in place on `work.residual_gradient`; adds to the weights' gradients. With
/// `pending`, the input part only: it adds to the gradients of the norms, and fills `pending` for
/// the weight part, which adds to those of the matrices and biases. Both ways give the same bits.
template <class Scalar>
void layer_backward(const layer_shape& shape, const layer_weights<Scalar>& weights,
                    const layer_stash<Scalar>& stash, workspace<Scalar>& work,
                    layer_gradients<Scalar>* pending = nullptr);

/// The weight part, after the input part. Uses `work.input` as scratch.
template <class Scalar>
void layer_backward_weights(const layer_shape& shape, const layer_weights<Scalar>& weights,
                            const layer_stash<Scalar>& stash,
                            const layer_gradients<Scalar>& pending, workspace<Scalar>& work);

/// y [tokens x outputs] = x [tokens x inputs] weight', plus the bias if there is one; with `add`, y
/// += it.
template <class Scalar>
void project(kernels::index tokens, kernels::index inputs, kernels::index outputs, const Scalar* x,
             const weight<Scalar>& matrix, const weight<Scalar>& bias, bool add, Scalar* y);

/// dx = dy weight; with `add`, dx += it.
template <class Scalar>
void project_backward_input(kernels::index tokens, kernels::index inputs, kernels::index outputs,
                            const weight<Scalar>& matrix, const Scalar* dy, bool add, Scalar* dx);

/// Adds to the gradients of the weight and of the bias if there is one.
template <class Scalar>
void project_backward_weights(kernels::index tokens, kernels::index inputs, kernels::index outputs,
                              const Scalar* x, const weight<Scalar>& matrix,
                              const weight<Scalar>& bias, const Scalar* dy);

}  // namespace tandem::train
