#pragma once

#include <tandem/collectives/plan.hpp>
#include <tandem/launch.hpp>

#include "plan/options.hpp"

namespace tandem::planner {

/// What the ranks of a launcher agree on, of which this process is one.
plan plan_of_job(const launch_info& who, const plan_options& o);

}  // namespace tandem::planner
