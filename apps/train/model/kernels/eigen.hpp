#pragma once

#include <Eigen/Core>

#include "model/kernels/kernels.hpp"

namespace tandem::train::kernels {

template <class Scalar>
using row = Eigen::Map<Eigen::Array<Scalar, 1, Eigen::Dynamic>>;
template <class Scalar>
using const_row = Eigen::Map<const Eigen::Array<Scalar, 1, Eigen::Dynamic>>;

}  // namespace tandem::train::kernels
