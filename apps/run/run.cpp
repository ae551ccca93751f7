#include "run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <filesystem>
#include <tandem/error.hpp>

#include "cli/command_line.hpp"
#include "cli/console.hpp"
#include "rank_environment.hpp"

namespace tandem::launcher {

std::vector<std::string> self_command(std::span<const std::string> args) {
  std::vector<std::string> command{std::filesystem::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), args.begin(), args.end());
  return command;
}

int run_main(std::span<const std::string> args) {
  launch_plan plan;
  settings options;
  int ranks = 0, port = 0;
  double grace_s = 3;
  bool no_prefix = false, with_nccl = false;
  cli::command_line line(
      {.command = "tandem run",
       .arguments = "-n N [options] [--] COMMAND ARGS...",
       .summary =
           "Starts N ranks of a command on this machine, as one job. The exit status is 0 if all "
           "ranks exit with 0, else that of the first that failed, or 128 + signal if a signal "
           "ended it. INT, TERM, HUP, QUIT, a hang-up of the terminal and a closed output (PIPE) "
           "stop the job: the ranks get the signal, after --grace SIGTERM, 2 seconds later "
           "SIGKILL, and the status is 128 + signal however they end. A second signal ends the "
           "grace period, a third one kills. Processes that the ranks have started get the same "
           "signals and time, whatever their process group, and none outlives the job. "
           "HUP, INT, QUIT and PIPE that are ignored at start, as under nohup, stay ignored.",
       .examples =
           "  tandem run -n 4 -- tandem train --steps 50\n"
           "  tandem run -n 2 python3 train.py --lr 3e-4     (any program that uses RANK)\n"
           "  tandem run -n 2 --spin-us 0 -- ./my_program    (engine options reach the ranks)\n"
           "  tandem run -n 2 --nccl -- ./all_reduce_perf -b 8 -e 256M -f 2    (NCCL's own "
           "tests)\n"});
  line.rest("COMMAND ARGS...", plan.command, "the program that every rank runs");
  line.option("ranks,n", ranks, 1, 4096, "number of ranks");
  line.flag("no-prefix", no_prefix,
            "no \"[rank] \" prefix; ranks inherit standard output, so that a terminal stays one");
  line.flag("nccl", with_nccl,
            "calls of NCCL and RCCL go to Tandem: sets LD_PRELOAD for the ranks");
  line.option("port", port, 0, 65535, "loopback port on which rank 0 listens; 0 picks a free one");
  line.option(
      "grace", grace_s, 0, 3600,
      "seconds for ranks to exit by themselves after a failure of another or a stop signal");
  line.engine_options(options);
  if (!line.parse(args)) return cli::success;
  if (!line.given("ranks")) {
    throw error(errc::bad_option, "-n is missing: how many ranks to start",
                "tandem run -n 2 -- COMMAND");
  }
  plan.ranks = ranks;
  plan.prefix = !no_prefix;
  plan.port = static_cast<std::uint16_t>(port);
  plan.grace = std::chrono::milliseconds(static_cast<int>(grace_s * 1000));
  plan.min_survivors = static_cast<int>(options.min_survivors);
  plan.environment = line.engine_environment();
  if (with_nccl) {
    const std::vector<std::string> libraries = nccl_libraries();
    add_nccl(plan.environment, libraries);
    fmt::print(stderr, "tandem run: NCCL and RCCL of the ranks are {}\n",
               fmt::join(libraries, " and "));
  }
  try {
    return launch_local(plan);
  } catch (const error& e) {
    // As shells do.
    const bool is_missing = e.code() == boost::system::errc::no_such_file_or_directory;
    const bool cannot_run = e.code() == boost::system::errc::permission_denied ||
                            e.code() == boost::system::errc::executable_format_error ||
                            e.code() == boost::system::errc::is_a_directory;
    if (!is_missing && !cannot_run) throw;
    fmt::print(stderr, "tandem run: {}\n", e.what());
    return is_missing ? cli::command_not_found : cli::command_not_executable;
  }
}

}  // namespace tandem::launcher
