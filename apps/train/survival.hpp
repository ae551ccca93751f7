// Which ranks go on when some are lost. No I/O.
#pragma once

#include <vector>

#include "layout.hpp"

namespace tandem::train {

/// The replicas of a layout all of whose ranks are left, in ascending order.
/// @param left  ranks of the layout
std::vector<int> complete_replicas(const layout& before, const std::vector<int>& left);

/// Of those, the ranks that belong to one of the replicas: ascending, as ranks are numbered.
std::vector<int> ranks_of(const layout& before, const std::vector<int>& replicas);

}  // namespace tandem::train
