#pragma once

#include <string>
#include <tandem/plan.hpp>

#include "plan/options.hpp"

namespace tandem::planner {

/// Human-readable: hosts, paths between ranks, and a line for each rule with its reason. `asked`
/// selects the operation to show, and whether the choice of transports is explained.
std::string table(const plan& agreed, const plan_options& asked);

/// A line for each host and its ranks.
std::string hosts_text(const facts& known);

}  // namespace tandem::planner
