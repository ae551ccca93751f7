#pragma once

#include <cstddef>
#include <cstdint>

/// The arithmetic: the only sources that use Eigen, and the only ones compiled for a newer CPU than
/// the rest of the program. This header has no inline function and the sources avoid templates of
/// the standard library: the linker could pick a copy with the newer instructions for the whole
/// program.
///
/// Matrices are dense, row by row, one row per token; weights are [outputs x inputs]. Every array
/// must start on `alignment_bytes`. Functions exist for float, and for double (gradient checks).
namespace tandem::train::kernels {

using index = std::ptrdiff_t;

/// A submatrix: `stride` elements from row to row.
template <class Scalar>
struct view {
  Scalar* data;
  index rows;
  index columns;
  index stride;
};

/// Fixes the block sizes of matrix products, which Eigen would choose by the CPU's cache sizes: the
/// order of sums, and so the bits, must not depend on the machine. Call before the
/// first product; idempotent.
void fix_block_sizes();

/// y = a b', a b, a' b; with `add`, y += it.
template <class Scalar>
void multiply_nt(view<const Scalar> a, view<const Scalar> b, view<Scalar> y, bool add);
template <class Scalar>
void multiply_nn(view<const Scalar> a, view<const Scalar> b, view<Scalar> y, bool add);
template <class Scalar>
void multiply_tn(view<const Scalar> a, view<const Scalar> b, view<Scalar> y, bool add);

/// y += x, row by row: x is one row.
template <class Scalar>
void add_to_rows(index rows, index columns, const Scalar* x, Scalar* y);
/// y += the sum of x's rows, from the first to the last: y is one row.
template <class Scalar>
void add_row_sum(index rows, index columns, const Scalar* x, Scalar* y);

/// normed = x / sqrt(mean(x^2) + epsilon) per row, inverse = that factor, y = normed * weight
/// (RMSNorm, 1910.07467).
template <class Scalar>
void rms_norm_forward(index rows, index columns, double epsilon, const Scalar* x,
                      const Scalar* weight, Scalar* normed, Scalar* inverse, Scalar* y);
/// y = normed * weight again, for the backward pass.
template <class Scalar>
void rms_norm_recompute(index rows, index columns, const Scalar* normed, const Scalar* weight,
                        Scalar* y);
/// dx += the input's gradient, dweight += the weight's, given dy, the output's.
template <class Scalar>
void rms_norm_backward(index rows, index columns, const Scalar* dy, const Scalar* normed,
                       const Scalar* inverse, const Scalar* weight, Scalar* dx, Scalar* dweight);

struct attention_shape {
  index sequences;
  index length;  ///< tokens of one sequence
  index heads;
  index kv_heads;
  index head_dim;
};

/// From token-major [tokens x heads * head_dim] to head-major [sequence][head][position][head_dim],
/// turning the pairs (i, i + head_dim / 2) by the position's angles (RoPE, 2104.09864). `cosine`
/// and `sine` are [length x head_dim / 2].
template <class Scalar>
void rotate_to_heads(const attention_shape& shape, index heads, const Scalar* cosine,
                     const Scalar* sine, const Scalar* tokens, Scalar* by_head);
/// The transpose of rotate_to_heads: back to token-major, turning the other way.
template <class Scalar>
void rotate_from_heads(const attention_shape& shape, index heads, const Scalar* cosine,
                       const Scalar* sine, const Scalar* by_head, Scalar* tokens);

/// Causal attention. q and k head-major, v and mixed token-major, probabilities
/// [sequence][head][length x length].
template <class Scalar>
void attention_forward(const attention_shape& shape, const Scalar* q, const Scalar* k,
                       const Scalar* v, Scalar* probabilities, Scalar* mixed);
/// Overwrites dq, dk, dv. `scratch` holds heads / kv_heads * length * length values.
template <class Scalar>
void attention_backward(const attention_shape& shape, const Scalar* q, const Scalar* k,
                        const Scalar* v, const Scalar* probabilities, const Scalar* dmixed,
                        Scalar* dq, Scalar* dk, Scalar* dv, Scalar* scratch);

/// y = gate * sigmoid(gate) * up (2002.05202).
template <class Scalar>
void swiglu_forward(index count, const Scalar* gate, const Scalar* up, Scalar* y);
/// Also computes y again. dup may be dy.
template <class Scalar>
void swiglu_backward(index count, const Scalar* gate, const Scalar* up, const Scalar* dy,
                     Scalar* dgate, Scalar* dup, Scalar* y);

/// The sum over rows of -log softmax(logits)[target]; turns logits into their gradient times
/// `scale`.
template <class Scalar>
double cross_entropy(index rows, index columns, double scale, const std::uint8_t* targets,
                     Scalar* logits);

template <class Scalar>
double squared_norm(index count, const Scalar* x);

/// One AdamW step's factors.
struct adamw_factors {
  double clip;  ///< on the gradient
  double beta1, beta2;
  double keep;        ///< 1 - learning rate * weight decay
  double rate;        ///< learning rate / (1 - beta1^step)
  double root_scale;  ///< 1 / sqrt(1 - beta2^step)
  double epsilon;
};
template <class Scalar>
void adamw(index count, const adamw_factors& factors, const Scalar* gradient, Scalar* first,
           Scalar* second, Scalar* value);

}  // namespace tandem::train::kernels
