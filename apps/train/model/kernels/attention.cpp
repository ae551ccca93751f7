#include <cmath>

#include "model/kernels/eigen.hpp"

namespace tandem::train::kernels {
namespace {

/// Row r of `scores` is position r % length; later positions get probability 0.
template <class Scalar>
void causal_softmax(index rows, index length, Scalar scale, Scalar* scores) {
  for (index r = 0; r < rows; ++r) {
    const index seen = r % length + 1;
    row<Scalar> past(scores + r * length, seen);
    const Scalar max_score = past.maxCoeff();
    past = ((past - max_score) * scale).exp();
    past *= 1 / past.sum();
    row<Scalar>(scores + r * length + seen, length - seen).setZero();
  }
}

template <class Scalar>
void softmax_backward(index rows, index length, Scalar scale, const Scalar* probabilities,
                      Scalar* gradient) {
  for (index r = 0; r < rows; ++r) {
    const const_row<Scalar> p(probabilities + r * length, length);
    row<Scalar> d(gradient + r * length, length);
    const Scalar mean = (p * d).sum();
    d = p * (d - mean) * scale;
  }
}

/// One sequence's slices for one key head and the `group` query heads that share it.
struct slice {
  index group;
  index query;          ///< offset in head-major queries
  index key;            ///< offset in head-major keys
  index probabilities;  ///< offset
  index value;          ///< offset in token-major values
  index mixed;          ///< offset in token-major outputs
};

slice slice_of(const attention_shape& s, index sequence, index kv_head) {
  const index group = s.heads / s.kv_heads;
  const index head = sequence * s.heads + kv_head * group;
  const index first_token = sequence * s.length;
  return {.group = group,
          .query = head * s.length * s.head_dim,
          .key = (sequence * s.kv_heads + kv_head) * s.length * s.head_dim,
          .probabilities = head * s.length * s.length,
          .value = (first_token * s.kv_heads + kv_head) * s.head_dim,
          .mixed = (first_token * s.heads + kv_head * group) * s.head_dim};
}

template <class Scalar>
Scalar score_scale(const attention_shape& s) {
  return 1 / std::sqrt(static_cast<Scalar>(s.head_dim));
}

}  // namespace

template <class Scalar>
void rotate_to_heads(const attention_shape& s, index heads, const Scalar* cosine,
                     const Scalar* sine, const Scalar* tokens, Scalar* by_head) {
  const index half = s.head_dim / 2;
  for (index sequence = 0; sequence < s.sequences; ++sequence)
    for (index head = 0; head < heads; ++head)
      for (index position = 0; position < s.length; ++position, by_head += s.head_dim) {
        const Scalar* from =
            tokens + ((sequence * s.length + position) * heads + head) * s.head_dim;
        const const_row<Scalar> c(cosine + position * half, half), z(sine + position * half, half);
        const const_row<Scalar> a(from, half), b(from + half, half);
        row<Scalar>(by_head, half) = a * c - b * z;
        row<Scalar>(by_head + half, half) = b * c + a * z;
      }
}

template <class Scalar>
void rotate_from_heads(const attention_shape& s, index heads, const Scalar* cosine,
                       const Scalar* sine, const Scalar* by_head, Scalar* tokens) {
  const index half = s.head_dim / 2;
  for (index sequence = 0; sequence < s.sequences; ++sequence)
    for (index head = 0; head < heads; ++head)
      for (index position = 0; position < s.length; ++position, by_head += s.head_dim) {
        Scalar* to = tokens + ((sequence * s.length + position) * heads + head) * s.head_dim;
        const const_row<Scalar> c(cosine + position * half, half), z(sine + position * half, half);
        const const_row<Scalar> a(by_head, half), b(by_head + half, half);
        row<Scalar>(to, half) = a * c + b * z;
        row<Scalar>(to + half, half) = b * c - a * z;
      }
}

template <class Scalar>
void attention_forward(const attention_shape& s, const Scalar* q, const Scalar* k, const Scalar* v,
                       Scalar* probabilities, Scalar* mixed) {
  const index length = s.length, dim = s.head_dim;
  for (index sequence = 0; sequence < s.sequences; ++sequence)
    for (index kv_head = 0; kv_head < s.kv_heads; ++kv_head) {
      const slice at = slice_of(s, sequence, kv_head);
      const index rows = at.group * length;
      Scalar* p = probabilities + at.probabilities;
      multiply_nt<Scalar>({q + at.query, rows, dim, dim}, {k + at.key, length, dim, dim},
                          {p, rows, length, length}, false);
      causal_softmax(rows, length, score_scale<Scalar>(s), p);
      for (index member = 0; member < at.group; ++member)
        multiply_nn<Scalar>({p + member * length * length, length, length, length},
                            {v + at.value, length, dim, s.kv_heads * dim},
                            {mixed + at.mixed + member * dim, length, dim, s.heads * dim}, false);
    }
}

template <class Scalar>
void attention_backward(const attention_shape& s, const Scalar* q, const Scalar* k, const Scalar* v,
                        const Scalar* probabilities, const Scalar* dmixed, Scalar* dq, Scalar* dk,
                        Scalar* dv, Scalar* scratch) {
  const index length = s.length, dim = s.head_dim, area = length * length;
  for (index sequence = 0; sequence < s.sequences; ++sequence)
    for (index kv_head = 0; kv_head < s.kv_heads; ++kv_head) {
      const slice at = slice_of(s, sequence, kv_head);
      const index rows = at.group * length;
      const Scalar* p = probabilities + at.probabilities;
      for (index member = 0; member < at.group; ++member) {
        const view<const Scalar> out{dmixed + at.mixed + member * dim, length, dim, s.heads * dim};
        multiply_nt<Scalar>(out, {v + at.value, length, dim, s.kv_heads * dim},
                            {scratch + member * area, length, length, length}, false);
        multiply_tn<Scalar>({p + member * area, length, length, length}, out,
                            {dv + at.value, length, dim, s.kv_heads * dim}, member > 0);
      }
      softmax_backward(rows, length, score_scale<Scalar>(s), p, scratch);
      const view<const Scalar> scores{scratch, rows, length, length};
      multiply_nn<Scalar>(scores, {k + at.key, length, dim, dim}, {dq + at.query, rows, dim, dim},
                          false);
      multiply_tn<Scalar>(scores, {q + at.query, rows, dim, dim}, {dk + at.key, length, dim, dim},
                          false);
    }
}

#define TANDEM_INSTANTIATE(Scalar)                                                                \
  template void rotate_to_heads(const attention_shape&, index, const Scalar*, const Scalar*,      \
                                const Scalar*, Scalar*);                                          \
  template void rotate_from_heads(const attention_shape&, index, const Scalar*, const Scalar*,    \
                                  const Scalar*, Scalar*);                                        \
  template void attention_forward(const attention_shape&, const Scalar*, const Scalar*,           \
                                  const Scalar*, Scalar*, Scalar*);                               \
  template void attention_backward(const attention_shape&, const Scalar*, const Scalar*,          \
                                   const Scalar*, const Scalar*, const Scalar*, Scalar*, Scalar*, \
                                   Scalar*, Scalar*);
TANDEM_INSTANTIATE(float)
TANDEM_INSTANTIATE(double)
#undef TANDEM_INSTANTIATE

}  // namespace tandem::train::kernels
