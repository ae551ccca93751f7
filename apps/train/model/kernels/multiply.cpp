#include "model/kernels/eigen.hpp"

namespace tandem::train::kernels {
namespace {

template <class Scalar>
using matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class Scalar>
Eigen::Map<const matrix<Scalar>, Eigen::Unaligned, Eigen::OuterStride<>> map(view<const Scalar> m) {
  return {m.data, m.rows, m.columns, Eigen::OuterStride<>(m.stride)};
}

template <class Scalar>
Eigen::Map<matrix<Scalar>, Eigen::Unaligned, Eigen::OuterStride<>> prepared(view<Scalar> y,
                                                                            bool add) {
  Eigen::Map<matrix<Scalar>, Eigen::Unaligned, Eigen::OuterStride<>> target(
      y.data, y.rows, y.columns, Eigen::OuterStride<>(y.stride));
  if (!add) target.setZero();
  return target;
}

}  // namespace

void fix_block_sizes() {
  Eigen::setCpuCacheSizes(32 * 1024, 1024 * 1024, 8 * 1024 * 1024);
}

template <class Scalar>
void multiply_nt(view<const Scalar> a, view<const Scalar> b, view<Scalar> y, bool add) {
  prepared(y, add).noalias() += map(a) * map(b).transpose();
}

template <class Scalar>
void multiply_nn(view<const Scalar> a, view<const Scalar> b, view<Scalar> y, bool add) {
  prepared(y, add).noalias() += map(a) * map(b);
}

template <class Scalar>
void multiply_tn(view<const Scalar> a, view<const Scalar> b, view<Scalar> y, bool add) {
  prepared(y, add).noalias() += map(a).transpose() * map(b);
}

template <class Scalar>
void add_to_rows(index rows, index columns, const Scalar* x, Scalar* y) {
  const const_row<Scalar> addend(x, columns);
  for (index r = 0; r < rows; ++r) row<Scalar>(y + r * columns, columns) += addend;
}

template <class Scalar>
void add_row_sum(index rows, index columns, const Scalar* x, Scalar* y) {
  row<Scalar> sum(y, columns);
  for (index r = 0; r < rows; ++r) sum += const_row<Scalar>(x + r * columns, columns);
}

#define TANDEM_INSTANTIATE(Scalar)                                                       \
  template void multiply_nt(view<const Scalar>, view<const Scalar>, view<Scalar>, bool); \
  template void multiply_nn(view<const Scalar>, view<const Scalar>, view<Scalar>, bool); \
  template void multiply_tn(view<const Scalar>, view<const Scalar>, view<Scalar>, bool); \
  template void add_to_rows(index, index, const Scalar*, Scalar*);                       \
  template void add_row_sum(index, index, const Scalar*, Scalar*);
TANDEM_INSTANTIATE(float)
TANDEM_INSTANTIATE(double)
#undef TANDEM_INSTANTIATE

}  // namespace tandem::train::kernels
