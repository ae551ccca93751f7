#pragma once

#include <tandem/collectives.hpp>
#include <vector>

#include "collectives/slow.hpp"

namespace tandem::test {

/// Factor of a rank in a premultiplied_sum: different for each rank, representable in every type.
inline double factor_of(int rank) {
  return rank + 2;
}

/// Input elements of a rank: floating-point ones mostly of one magnitude, so that sums round;
/// others arbitrary.
std::vector<element> elements_of(data_type type, int rank, std::size_t count);

/// 1 / 2^k, where 2^k is the first power of two from twice the ranks on; 1 / 2 for two ranks.
double scale_of_average(int ranks);

/// The inputs of all ranks, times their factors where the operation has factors.
std::vector<std::vector<element>> prepared(data_type type, reduce_op op,
                                           std::vector<std::vector<element>> inputs);
/// Last step of a reduction: the division of an average.
element finished(data_type type, reduce_op op, element combined, int ranks);

}  // namespace tandem::test
