#include <cmath>

#include "model/kernels/eigen.hpp"

namespace tandem::train::kernels {

template <class Scalar>
void rms_norm_forward(index rows, index columns, double epsilon, const Scalar* x,
                      const Scalar* weight, Scalar* normed, Scalar* inverse, Scalar* y) {
  const const_row<Scalar> gain(weight, columns);
  for (index r = 0; r < rows; ++r) {
    const const_row<Scalar> in(x + r * columns, columns);
    row<Scalar> hat(normed + r * columns, columns);
    const Scalar mean = in.square().sum() / static_cast<Scalar>(columns);
    inverse[r] = 1 / std::sqrt(mean + static_cast<Scalar>(epsilon));
    hat = in * inverse[r];
    row<Scalar>(y + r * columns, columns) = hat * gain;
  }
}

template <class Scalar>
void rms_norm_recompute(index rows, index columns, const Scalar* normed, const Scalar* weight,
                        Scalar* y) {
  const const_row<Scalar> gain(weight, columns);
  for (index r = 0; r < rows; ++r)
    row<Scalar>(y + r * columns, columns) = const_row<Scalar>(normed + r * columns, columns) * gain;
}

template <class Scalar>
void rms_norm_backward(index rows, index columns, const Scalar* dy, const Scalar* normed,
                       const Scalar* inverse, const Scalar* weight, Scalar* dx, Scalar* dweight) {
  const const_row<Scalar> gain(weight, columns);
  row<Scalar> gain_gradient(dweight, columns);
  for (index r = 0; r < rows; ++r) {
    const const_row<Scalar> out(dy + r * columns, columns);
    const const_row<Scalar> hat(normed + r * columns, columns);
    const Scalar mean = (out * gain * hat).sum() / static_cast<Scalar>(columns);
    row<Scalar>(dx + r * columns, columns) += (out * gain - hat * mean) * inverse[r];
    gain_gradient += out * hat;
  }
}

#define TANDEM_INSTANTIATE(Scalar)                                                            \
  template void rms_norm_forward(index, index, double, const Scalar*, const Scalar*, Scalar*, \
                                 Scalar*, Scalar*);                                           \
  template void rms_norm_recompute(index, index, const Scalar*, const Scalar*, Scalar*);      \
  template void rms_norm_backward(index, index, const Scalar*, const Scalar*, const Scalar*,  \
                                  const Scalar*, Scalar*, Scalar*);
TANDEM_INSTANTIATE(float)
TANDEM_INSTANTIATE(double)
#undef TANDEM_INSTANTIATE

}  // namespace tandem::train::kernels
