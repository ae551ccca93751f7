#pragma once

#include <string>
#include <tandem/parallel.hpp>
#include <vector>

#include "plan/options.hpp"

namespace tandem::planner {

/// The back-ends that ranks with the assumed properties would choose. @pre o.layout.
std::vector<group_choice> assumed_groups(const plan_options& o);

/// Human-readable: a line for each host, and one for each group with the reason.
std::string groups_table(const std::vector<group_choice>& agreed, const parallel_layout& layout,
                         const facts& known);

}  // namespace tandem::planner
