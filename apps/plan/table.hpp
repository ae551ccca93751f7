#pragma once

#include <string>
#include <tandem/collectives/plan.hpp>

namespace tandem::planner {

/// Hosts, ways between ranks, and a line for each rule with its reason, for people.
std::string table(const plan& agreed);

}  // namespace tandem::planner
