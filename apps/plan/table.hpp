#pragma once

#include <string>
#include <tandem/collectives/plan.hpp>

#include "plan/options.hpp"

namespace tandem::planner {

/// Hosts, ways between ranks, and a line for each rule with its reason, for people; of what was
/// asked for, why the ways are what they are, and the one operation to show.
std::string table(const plan& agreed, const plan_options& asked);

/// A line for each host and its ranks.
std::string hosts_text(const facts& known);

}  // namespace tandem::planner
