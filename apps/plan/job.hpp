#pragma once

#include <tandem/launch.hpp>
#include <tandem/parallel.hpp>
#include <tandem/plan.hpp>
#include <vector>

#include "plan/options.hpp"

namespace tandem::planner {

struct agreement {
  plan rules;
  std::vector<group_choice> groups;  ///< empty unless requested
};

/// The plan and groups on which the ranks of a launcher agree; called on each of them.
agreement agreement_of_job(const launch_info& who, const plan_options& o);

}  // namespace tandem::planner
