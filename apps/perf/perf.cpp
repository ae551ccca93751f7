#include <fmt/format.h>

#include <tandem/error.hpp>
#include <tandem/launch.hpp>

#include "cli/job_fabric.hpp"
#include "commands.hpp"
#include "perf/measure.hpp"
#include "perf/options.hpp"
#include "perf/report.hpp"
#include "perf/terms.hpp"
#include "run/run.hpp"

namespace tandem::perf {

namespace {

int start_tcp_ranks(std::span<const std::string> args, int ranks) {
  std::vector<std::string> own{"perf"};
  own.insert(own.end(), args.begin(), args.end());
  launcher::launch_plan plan;
  plan.ranks = ranks;
  plan.command = launcher::self_command(own);
  plan.prefix = false;
  plan.name = "tandem perf";
  return launcher::launch_local(plan);
}

void check_launch(const launch_info& who, const perf_options& o) {
  if (o.channel == "local") {
    throw error(errc::bad_option, "--channel=local: its ranks are threads of one process",
                fmt::format("start it without {}", who.launcher));
  }
  if (o.ranks != 0 && o.ranks != who.size) {
    throw error(errc::bad_option,
                fmt::format("--ranks={}: {} has started {} ranks", o.ranks, who.launcher, who.size),
                "leave --ranks out under a launcher");
  }
  if (o.op->who != rank_pattern::all && who.size < 2) {
    throw error(errc::bad_option, fmt::format("{} needs two ranks", o.op->name),
                "start at least two ranks");
  }
}

void check_terms(const perf_options& o, int ranks) {
  if (!o.op->reduces || terms::possible(o.type, o.reduction, ranks)) return;
  throw error(errc::bad_option,
              fmt::format("--type={}: results of {} ranks (--reduction={}) are not exact in this "
                          "type",
                          name(o.type), ranks, name(o.reduction)),
              "choose a wider type or fewer ranks");
}

}  // namespace

int perf_main(std::span<const std::string> args) {
  const std::optional<perf_options> parsed = parse_options(args);
  if (!parsed) return 0;
  const perf_options& o = *parsed;
  const std::optional<launch_info> who = find_launch();
  const int ranks = o.ranks == 0 ? 2 : o.ranks;
  if (who) check_launch(*who, o);
  check_terms(o, who ? who->size : ranks);
  const auto check_files = [&] {
    if (!who || who->rank == 0) report(o).check();
    if (o.channel != "local") cli::check_inputs(o.engine);
  };
  if (who) {
    cli::check_as_rank(*who, o.engine, check_files);
  } else {
    check_files();
  }
  if (!who && o.channel != "local") return start_tcp_ranks(args, ranks);
  const std::uint64_t wrong = who ? run_rank(*who, o) : run_local(ranks, o);
  if (wrong == 0) return 0;
  if (!who || who->rank == 0) {
    fmt::print(stderr, "tandem perf: {} bytes were wrong: the channel or the memory is broken\n",
               wrong);
  }
  return 1;
}

}  // namespace tandem::perf
