#pragma once

#include <tandem/collectives.hpp>
#include <vector>

#include "collectives/reduce/slow.hpp"

namespace tandem::test {

/// What each rank multiplies by in a premultiplied_sum: its own, and one that every type holds.
inline double factor_of(int rank) {
  return rank + 2;
}

/// Elements that a rank brings: those of floating point mostly of one size, so that they round, the
/// others anything.
std::vector<element> elements_of(data_type type, int rank, std::size_t count);

/// Brought by `ranks` ranks, times their factors where the operation says so.
std::vector<std::vector<element>> prepared(data_type type, reduce_op op,
                                           std::vector<std::vector<element>> inputs);
/// The last step of a reduction.
element finished(data_type type, reduce_op op, element combined, int ranks);

}  // namespace tandem::test
