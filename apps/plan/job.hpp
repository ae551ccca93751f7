#pragma once

#include <tandem/collectives/group_choice.hpp>
#include <tandem/collectives/plan.hpp>
#include <tandem/launch.hpp>
#include <vector>

#include "plan/options.hpp"

namespace tandem::planner {

struct agreement {
  plan rules;
  std::vector<group_choice> groups;  ///< where groups were asked for
};

/// What the ranks of a launcher agree on, of which this process is one.
agreement agreement_of_job(const launch_info& who, const plan_options& o);

}  // namespace tandem::planner
