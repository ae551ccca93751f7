#include "plan/plan.hpp"

#include <fmt/format.h>

#include <tandem/detail/profile_file.hpp>
#include <tandem/error.hpp>
#include <tandem/launch.hpp>

#include "cli/console.hpp"
#include "cli/job_fabric.hpp"
#include "cli/output_file.hpp"
#include "commands.hpp"
#include "plan/options.hpp"

namespace tandem::planner {

int plan_main(std::span<const std::string> args) {
  if (!args.empty() && args[0] == "pipeline") return pipeline_main(args.subspan(1));
  const std::optional<plan_options> parsed = parse_options(args);
  if (!parsed) return cli::success;
  const plan_options& o = *parsed;
  const std::optional<launch_info> who = find_launch();
  const bool probes = o.what == plan_options::request::probe;
  const bool divides = o.what == plan_options::request::groups;
  if (!who) {
    if (probes) {
      throw error(errc::bad_option, "probe: needs the ranks of a launcher to measure",
                  "start it as `tandem run -n 2 -- tandem plan probe --save FILE`");
    }
    const std::string title = o.layout ? o.layout->text() : "of a script";
    cli::print(divides ? groups_table(assumed_groups(o), title, o.assumed)
                       : table(plan::of(o.assumed, o.engine), o));
    return cli::success;
  }
  if (o.assumes) {
    throw error(errc::bad_option,
                fmt::format("{} has started {} ranks, whose measurements the plan uses",
                            who->launcher, who->size),
                "leave out --ranks, --hosts, --islands, latencies and rates under a launcher");
  }
  if (!o.members.empty()) {
    throw error(errc::bad_option, "--members: for ranks that are assumed",
                "in a job of PyTorch TANDEM_LOG=info logs what carries each group");
  }
  const cli::output_file profile("--save", o.save);
  cli::check_as_rank(*who, o.engine, [&] {
    if (who->rank == 0) profile.check();
    cli::check_inputs(o.engine);
  });
  const agreement found = agreement_of_job(*who, o);
  const plan& agreed = found.rules;
  if (who->rank != 0) return cli::success;
  if (divides) {
    cli::print(groups_table(found.groups, o.layout->text(), agreed.known()));
  } else if (probes) {
    facts saved = agreed.known();
    saved.probed = false;  // as for those who read the profile
    cli::print(table(plan::of(saved, o.engine), o));
    profile.write(detail::profile_file(saved));
  } else {
    cli::print(table(agreed, o));
  }
  return cli::success;
}

}  // namespace tandem::planner
