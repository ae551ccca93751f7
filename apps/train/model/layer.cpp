#include "model/layer.hpp"

#include <algorithm>
#include <cmath>

namespace tandem::train {
namespace {

using kernels::index;

std::size_t area(index rows, index columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

std::size_t probabilities_of(const kernels::attention_shape& shape) {
  return area(shape.sequences * shape.heads, shape.length * shape.length);
}

}  // namespace

layer_shape shape_of(const model_config& config, int sequences, int sequence_length) {
  return {.tokens = static_cast<index>(sequences) * sequence_length,
          .dim = config.dim,
          .kv_dim = config.kv_dim(),
          .hidden = config.hidden,
          .norm_epsilon = config.norm_epsilon,
          .attention = {.sequences = sequences,
                        .length = sequence_length,
                        .heads = config.heads,
                        .kv_heads = config.kv_heads,
                        .head_dim = config.head_dim()}};
}

template <class Scalar>
layer_stash<Scalar>::layer_stash(const layer_shape& shape)
    : attention_normed(area(shape.tokens, shape.dim)),
      attention_inverse(area(shape.tokens, 1)),
      q(area(shape.tokens, shape.dim)),
      k(area(shape.tokens, shape.kv_dim)),
      v(area(shape.tokens, shape.kv_dim)),
      probabilities(probabilities_of(shape.attention)),
      mixed(area(shape.tokens, shape.dim)),
      mlp_normed(area(shape.tokens, shape.dim)),
      mlp_inverse(area(shape.tokens, 1)),
      gate(area(shape.tokens, shape.hidden)),
      up(area(shape.tokens, shape.hidden)) {}

template <class Scalar>
layer_gradients<Scalar>::layer_gradients(const layer_shape& shape)
    : mlp_output(area(shape.tokens, shape.dim)),
      act(area(shape.tokens, shape.hidden)),
      gate(act.size()),
      up(act.size()),
      attention_output(mlp_output.size()),
      query(mlp_output.size()),
      key(area(shape.tokens, shape.kv_dim)),
      value(key.size()) {}

template <class Scalar>
workspace<Scalar>::workspace(const layer_shape& shape, double rope_theta)
    : cosine(area(shape.attention.length, shape.attention.head_dim / 2)),
      sine(cosine.size()),
      residual(area(shape.tokens, shape.dim)),
      residual_gradient(residual.size()),
      input(residual.size()),
      input_gradient(residual.size()),
      q(residual.size()),
      k(area(shape.tokens, shape.kv_dim)),
      mixed_gradient(residual.size()),
      q_gradient(q.size()),
      k_gradient(k.size()),
      scores(area(shape.attention.heads / shape.attention.kv_heads,
                  shape.attention.length * shape.attention.length)),
      gradients(shape) {
  const index half = shape.attention.head_dim / 2;
  for (index position = 0; position < shape.attention.length; ++position)
    for (index pair = 0; pair < half; ++pair) {
      const double angle =
          static_cast<double>(position) *
          std::pow(rope_theta, -static_cast<double>(pair) / static_cast<double>(half));
      cosine.data()[position * half + pair] = static_cast<Scalar>(std::cos(angle));
      sine.data()[position * half + pair] = static_cast<Scalar>(std::sin(angle));
    }
}

template <class Scalar>
void project(index tokens, index inputs, index outputs, const Scalar* x,
             const weight<Scalar>& matrix, const weight<Scalar>& bias, bool add, Scalar* y) {
  kernels::multiply_nt<Scalar>({x, tokens, inputs, inputs}, {matrix.value, outputs, inputs, inputs},
                               {y, tokens, outputs, outputs}, add);
  if (bias.value) kernels::add_to_rows<Scalar>(tokens, outputs, bias.value, y);
}

template <class Scalar>
void project_backward_input(index tokens, index inputs, index outputs, const weight<Scalar>& matrix,
                            const Scalar* dy, bool add, Scalar* dx) {
  kernels::multiply_nn<Scalar>({dy, tokens, outputs, outputs},
                               {matrix.value, outputs, inputs, inputs},
                               {dx, tokens, inputs, inputs}, add);
}

template <class Scalar>
void project_backward_weights(index tokens, index inputs, index outputs, const Scalar* x,
                              const weight<Scalar>& matrix, const weight<Scalar>& bias,
                              const Scalar* dy) {
  kernels::multiply_tn<Scalar>({dy, tokens, outputs, outputs}, {x, tokens, inputs, inputs},
                               {matrix.gradient, outputs, inputs, inputs}, true);
  if (bias.gradient) kernels::add_row_sum<Scalar>(tokens, outputs, dy, bias.gradient);
}

template <class Scalar>
void layer_forward(const layer_shape& s, const layer_weights<Scalar>& w, layer_stash<Scalar>& stash,
                   workspace<Scalar>& work) {
  const weight<Scalar> no_bias;
  Scalar* x = work.residual.data();
  Scalar* in = work.input.data();

  kernels::rms_norm_forward<Scalar>(s.tokens, s.dim, s.norm_epsilon, x, w.attention_norm.value,
                                    stash.attention_normed.data(), stash.attention_inverse.data(),
                                    in);
  project<Scalar>(s.tokens, s.dim, s.dim, in, w.query, w.query_bias, false, work.q.data());
  project<Scalar>(s.tokens, s.dim, s.kv_dim, in, w.key, w.key_bias, false, work.k.data());
  project<Scalar>(s.tokens, s.dim, s.kv_dim, in, w.value, w.value_bias, false, stash.v.data());
  kernels::rotate_to_heads<Scalar>(s.attention, s.attention.heads, work.cosine.data(),
                                   work.sine.data(), work.q.data(), stash.q.data());
  kernels::rotate_to_heads<Scalar>(s.attention, s.attention.kv_heads, work.cosine.data(),
                                   work.sine.data(), work.k.data(), stash.k.data());
  kernels::attention_forward<Scalar>(s.attention, stash.q.data(), stash.k.data(), stash.v.data(),
                                     stash.probabilities.data(), stash.mixed.data());
  project<Scalar>(s.tokens, s.dim, s.dim, stash.mixed.data(), w.output, no_bias, true, x);

  kernels::rms_norm_forward<Scalar>(s.tokens, s.dim, s.norm_epsilon, x, w.mlp_norm.value,
                                    stash.mlp_normed.data(), stash.mlp_inverse.data(), in);
  project<Scalar>(s.tokens, s.dim, s.hidden, in, w.gate, no_bias, false, stash.gate.data());
  project<Scalar>(s.tokens, s.dim, s.hidden, in, w.up, no_bias, false, stash.up.data());
  Scalar* act = work.gradients.act.data();
  kernels::swiglu_forward<Scalar>(s.tokens * s.hidden, stash.gate.data(), stash.up.data(), act);
  project<Scalar>(s.tokens, s.hidden, s.dim, act, w.down, no_bias, true, x);
}

namespace {

/// @param output  gradient of the block's output
template <class Scalar>
void mlp_weights(const layer_shape& s, const layer_weights<Scalar>& w,
                 const layer_stash<Scalar>& stash, const layer_gradients<Scalar>& of,
                 const Scalar* output, workspace<Scalar>& work) {
  const weight<Scalar> no_bias;
  Scalar* in = work.input.data();
  project_backward_weights<Scalar>(s.tokens, s.hidden, s.dim, of.act.data(), w.down, no_bias,
                                   output);
  kernels::rms_norm_recompute<Scalar>(s.tokens, s.dim, stash.mlp_normed.data(), w.mlp_norm.value,
                                      in);
  project_backward_weights<Scalar>(s.tokens, s.dim, s.hidden, in, w.gate, no_bias, of.gate.data());
  project_backward_weights<Scalar>(s.tokens, s.dim, s.hidden, in, w.up, no_bias, of.up.data());
}

/// @param output  gradient of the block's output
template <class Scalar>
void attention_weights(const layer_shape& s, const layer_weights<Scalar>& w,
                       const layer_stash<Scalar>& stash, const layer_gradients<Scalar>& of,
                       const Scalar* output, workspace<Scalar>& work) {
  const weight<Scalar> no_bias;
  Scalar* in = work.input.data();
  project_backward_weights<Scalar>(s.tokens, s.dim, s.dim, stash.mixed.data(), w.output, no_bias,
                                   output);
  kernels::rms_norm_recompute<Scalar>(s.tokens, s.dim, stash.attention_normed.data(),
                                      w.attention_norm.value, in);
  project_backward_weights<Scalar>(s.tokens, s.dim, s.dim, in, w.query, w.query_bias,
                                   of.query.data());
  project_backward_weights<Scalar>(s.tokens, s.dim, s.kv_dim, in, w.key, w.key_bias, of.key.data());
  project_backward_weights<Scalar>(s.tokens, s.dim, s.kv_dim, in, w.value, w.value_bias,
                                   of.value.data());
}

template <class Scalar>
void mlp_backward(const layer_shape& s, const layer_weights<Scalar>& w,
                  const layer_stash<Scalar>& stash, workspace<Scalar>& work,
                  layer_gradients<Scalar>* pending) {
  layer_gradients<Scalar>& of = pending ? *pending : work.gradients;
  Scalar* dx = work.residual_gradient.data();
  Scalar* din = work.input_gradient.data();
  Scalar* dup = of.up.data();
  project_backward_input<Scalar>(s.tokens, s.hidden, s.dim, w.down, dx, false, dup);
  kernels::swiglu_backward<Scalar>(s.tokens * s.hidden, stash.gate.data(), stash.up.data(), dup,
                                   of.gate.data(), dup, of.act.data());
  // The norm changes the gradient of the block's output in place.
  if (pending) {
    std::copy_n(dx, work.residual_gradient.size(), of.mlp_output.data());
  } else {
    mlp_weights(s, w, stash, of, dx, work);
  }
  project_backward_input<Scalar>(s.tokens, s.dim, s.hidden, w.gate, of.gate.data(), false, din);
  project_backward_input<Scalar>(s.tokens, s.dim, s.hidden, w.up, dup, true, din);
  kernels::rms_norm_backward<Scalar>(s.tokens, s.dim, din, stash.mlp_normed.data(),
                                     stash.mlp_inverse.data(), w.mlp_norm.value, dx,
                                     w.mlp_norm.gradient);
}

template <class Scalar>
void attention_block_backward(const layer_shape& s, const layer_weights<Scalar>& w,
                              const layer_stash<Scalar>& stash, workspace<Scalar>& work,
                              layer_gradients<Scalar>* pending) {
  layer_gradients<Scalar>& of = pending ? *pending : work.gradients;
  Scalar* dx = work.residual_gradient.data();
  Scalar* din = work.input_gradient.data();
  project_backward_input<Scalar>(s.tokens, s.dim, s.dim, w.output, dx, false,
                                 work.mixed_gradient.data());
  kernels::attention_backward<Scalar>(s.attention, stash.q.data(), stash.k.data(), stash.v.data(),
                                      stash.probabilities.data(), work.mixed_gradient.data(),
                                      work.q_gradient.data(), work.k_gradient.data(),
                                      of.value.data(), work.scores.data());
  kernels::rotate_from_heads<Scalar>(s.attention, s.attention.heads, work.cosine.data(),
                                     work.sine.data(), work.q_gradient.data(), of.query.data());
  kernels::rotate_from_heads<Scalar>(s.attention, s.attention.kv_heads, work.cosine.data(),
                                     work.sine.data(), work.k_gradient.data(), of.key.data());
  if (pending) {
    std::copy_n(dx, work.residual_gradient.size(), of.attention_output.data());
  } else {
    attention_weights(s, w, stash, of, dx, work);
  }
  project_backward_input<Scalar>(s.tokens, s.dim, s.dim, w.query, of.query.data(), false, din);
  project_backward_input<Scalar>(s.tokens, s.dim, s.kv_dim, w.key, of.key.data(), true, din);
  project_backward_input<Scalar>(s.tokens, s.dim, s.kv_dim, w.value, of.value.data(), true, din);
  kernels::rms_norm_backward<Scalar>(s.tokens, s.dim, din, stash.attention_normed.data(),
                                     stash.attention_inverse.data(), w.attention_norm.value, dx,
                                     w.attention_norm.gradient);
}

}  // namespace

template <class Scalar>
void layer_backward(const layer_shape& shape, const layer_weights<Scalar>& weights,
                    const layer_stash<Scalar>& stash, workspace<Scalar>& work,
                    layer_gradients<Scalar>* pending) {
  mlp_backward(shape, weights, stash, work, pending);
  attention_block_backward(shape, weights, stash, work, pending);
}

template <class Scalar>
void layer_backward_weights(const layer_shape& shape, const layer_weights<Scalar>& weights,
                            const layer_stash<Scalar>& stash,
                            const layer_gradients<Scalar>& pending, workspace<Scalar>& work) {
  mlp_weights(shape, weights, stash, pending, pending.mlp_output.data(), work);
  attention_weights(shape, weights, stash, pending, pending.attention_output.data(), work);
}

#define TANDEM_INSTANTIATE(Scalar)                                                                 \
  template struct layer_stash<Scalar>;                                                             \
  template struct layer_gradients<Scalar>;                                                         \
  template struct workspace<Scalar>;                                                               \
  template void project(index, index, index, const Scalar*, const weight<Scalar>&,                 \
                        const weight<Scalar>&, bool, Scalar*);                                     \
  template void project_backward_input(index, index, index, const weight<Scalar>&, const Scalar*,  \
                                       bool, Scalar*);                                             \
  template void project_backward_weights(index, index, index, const Scalar*,                       \
                                         const weight<Scalar>&, const weight<Scalar>&,             \
                                         const Scalar*);                                           \
  template void layer_forward(const layer_shape&, const layer_weights<Scalar>&,                    \
                              layer_stash<Scalar>&, workspace<Scalar>&);                           \
  template void layer_backward(const layer_shape&, const layer_weights<Scalar>&,                   \
                               const layer_stash<Scalar>&, workspace<Scalar>&,                     \
                               layer_gradients<Scalar>*);                                          \
  template void layer_backward_weights(const layer_shape&, const layer_weights<Scalar>&,           \
                                       const layer_stash<Scalar>&, const layer_gradients<Scalar>&, \
                                       workspace<Scalar>&);
TANDEM_INSTANTIATE(float)
TANDEM_INSTANTIATE(double)
#undef TANDEM_INSTANTIATE

}  // namespace tandem::train
