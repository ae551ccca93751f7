#pragma once

#include <string>
#include <string_view>
#include <tandem/collectives/plan.hpp>

namespace tandem::planner {

/// Hosts, ways between ranks, and a line for each rule with its reason, for people. Only the rules
/// of the operation `op`, if it names one.
std::string table(const plan& agreed, std::string_view op);

}  // namespace tandem::planner
