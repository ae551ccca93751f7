#pragma once

#include <string>
#include <tandem/collectives/group_choice.hpp>
#include <vector>

#include "plan/options.hpp"

namespace tandem::planner {

/// What ranks such as the options assume would agree on. @pre they ask for groups.
std::vector<group_choice> assumed_groups(const plan_options& o);

/// A line for each host, and one for each group with its reason, for people.
std::string groups_table(const std::vector<group_choice>& agreed, const parallel_layout& layout,
                         const facts& known);

}  // namespace tandem::planner
