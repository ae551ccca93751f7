// What the command is made of: the plan and the groups, of a job or assumed, and their texts.
#pragma once

#include <span>
#include <string>
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

/// The back-ends that ranks with the assumed properties would choose. @pre a layout or members.
std::vector<group_choice> assumed_groups(const plan_options& o);

/// Human-readable: a line for each host, and one for each group with the reason. @param title  the
/// layout, or the ranks of the groups
std::string groups_table(const std::vector<group_choice>& agreed, const std::string& title,
                         const facts& known);

/// Human-readable: hosts, paths between ranks, and a line for each rule with its reason. `asked`
/// selects the operation to show, and whether the choice of transports is explained.
std::string table(const plan& agreed, const plan_options& asked);

/// A line for each host and its ranks.
std::string hosts_text(const facts& known);

/// `tandem plan pipeline`: prints a pipeline schedule. @param args  after "pipeline"
int pipeline_main(std::span<const std::string> args);

}  // namespace tandem::planner
