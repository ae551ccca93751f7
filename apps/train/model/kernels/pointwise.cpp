#include <cmath>

#include "model/kernels/eigen.hpp"

namespace tandem::train::kernels {
namespace {

/// Block size of multi-pass loops: a block stays in the L1 cache.
constexpr index block = 1024;

index block_at(index start, index count) {
  return count - start < block ? count - start : block;
}

}  // namespace

template <class Scalar>
void swiglu_forward(index count, const Scalar* gate, const Scalar* up, Scalar* y) {
  const const_row<Scalar> g(gate, count), u(up, count);
  row<Scalar>(y, count) = g * g.logistic() * u;
}

template <class Scalar>
void swiglu_backward(index count, const Scalar* gate, const Scalar* up, const Scalar* dy,
                     Scalar* dgate, Scalar* dup, Scalar* y) {
  for (index start = 0; start < count; start += block) {
    const index size = block_at(start, count);
    const const_row<Scalar> g(gate + start, size), u(up + start, size), d(dy + start, size);
    row<Scalar> act(y + start, size);
    act = g.logistic();
    row<Scalar>(dgate + start, size) = d * u * act * (1 + g * (1 - act));
    act *= g;
    row<Scalar>(dup + start, size) = d * act;
    act *= u;
  }
}

template <class Scalar>
double cross_entropy(index rows, index columns, double scale, const std::uint8_t* targets,
                     Scalar* logits) {
  double loss = 0;
  for (index r = 0; r < rows; ++r) {
    row<Scalar> scores(logits + r * columns, columns);
    const Scalar max_score = scores.maxCoeff(), target_score = scores[targets[r]];
    scores = (scores - max_score).exp();
    const Scalar sum = scores.sum();
    loss += std::log(static_cast<double>(sum)) +
            (static_cast<double>(max_score) - static_cast<double>(target_score));
    scores *= static_cast<Scalar>(scale) / sum;
    scores[targets[r]] -= static_cast<Scalar>(scale);
  }
  return loss;
}

template <class Scalar>
double squared_norm(index count, const Scalar* x) {
  constexpr index lanes = 8;
  double sums[lanes] = {};
  for (index k = 0; k + lanes <= count; k += lanes)
    for (index lane = 0; lane < lanes; ++lane)
      sums[lane] += static_cast<double>(x[k + lane]) * static_cast<double>(x[k + lane]);
  double total = 0;
  for (const double sum : sums) total += sum;
  for (index k = count / lanes * lanes; k < count; ++k)
    total += static_cast<double>(x[k]) * static_cast<double>(x[k]);
  return total;
}

template <class Scalar>
void adamw(index count, const adamw_factors& f, const Scalar* gradient, Scalar* first,
           Scalar* second, Scalar* value) {
  const Scalar clip = static_cast<Scalar>(f.clip), keep = static_cast<Scalar>(f.keep);
  const Scalar beta1 = static_cast<Scalar>(f.beta1), rest1 = static_cast<Scalar>(1 - f.beta1);
  const Scalar beta2 = static_cast<Scalar>(f.beta2), rest2 = static_cast<Scalar>(1 - f.beta2);
  const Scalar rate = static_cast<Scalar>(f.rate), root_scale = static_cast<Scalar>(f.root_scale);
  const Scalar epsilon = static_cast<Scalar>(f.epsilon);
  for (index start = 0; start < count; start += block) {
    const index size = block_at(start, count);
    const const_row<Scalar> g(gradient + start, size);
    row<Scalar> m(first + start, size), v(second + start, size), p(value + start, size);
    m = m * beta1 + g * (clip * rest1);
    v = v * beta2 + (g * clip).square() * rest2;
    p = p * keep - m * rate / (v.sqrt() * root_scale + epsilon);
  }
}

#define TANDEM_INSTANTIATE(Scalar)                                                           \
  template void swiglu_forward(index, const Scalar*, const Scalar*, Scalar*);                \
  template void swiglu_backward(index, const Scalar*, const Scalar*, const Scalar*, Scalar*, \
                                Scalar*, Scalar*);                                           \
  template double cross_entropy(index, index, double, const std::uint8_t*, Scalar*);         \
  template double squared_norm(index, const Scalar*);                                        \
  template void adamw(index, const adamw_factors&, const Scalar*, Scalar*, Scalar*, Scalar*);
TANDEM_INSTANTIATE(float)
TANDEM_INSTANTIATE(double)
#undef TANDEM_INSTANTIATE

}  // namespace tandem::train::kernels
