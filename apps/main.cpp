// The program `tandem`: runs the subcommand and turns exceptions into one line and an exit status.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/version.hpp>
#include <cstdio>
#include <exception>
#include <iterator>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/error.hpp>
#include <tandem/version.hpp>

#include "cli/command_line.hpp"
#include "cli/console.hpp"
#include "commands.hpp"
#include "completion/completion.hpp"
#include "manual/manual.hpp"
#include "run/run.hpp"

namespace tandem::cli {
namespace {

using arguments = std::span<const std::string>;

struct command {
  std::string_view name;
  std::string_view summary;
  int (*main)(arguments args);
};

int completion_main(arguments args);
int help_main(arguments args);
int manual_main(arguments args);
int options_main(arguments args);
int version_main(arguments args);

constexpr command commands[] = {
    {"train", "train a small language model across two islands, with a report", train::train_main},
    {"perf", "measure channels and collectives", perf::perf_main},
    {"plan", "algorithm of each collective, transport of each group, and why", planner::plan_main},
    {"rails", "network interfaces: which ones are used as rails, and why", rails::rails_main},
    {"devices", "accelerators of this machine and their capabilities", inventory::devices_main},
    {"run", "start local ranks of any command as one job", launcher::run_main},
    {"options", "every engine option: unit, default, current value", options_main},
    {"manual", "manual page of a subcommand, for man", manual_main},
    {"completion", "completion script for bash, zsh or fish", completion_main},
    {"version", "version, commit and compiler", version_main},
    {"help", "help on a subcommand: tandem help train", help_main},
};

std::vector<std::string_view> subcommands() {
  std::vector<std::string_view> names;
  for (const command& c : commands) names.push_back(c.name);
  return names;
}

const command& find_command(std::string_view name) {
  for (const command& c : commands) {
    if (c.name == name) return c;
  }
  const std::string_view near = nearest(name, subcommands());
  throw error(errc::bad_option, fmt::format("{}: no such subcommand", name),
              near.empty() ? "tandem --help lists them" : fmt::format("did you mean {}?", near));
}

usage own_usage() {
  return {.command = "tandem",
          .arguments = "SUBCOMMAND [options]",
          .summary = "Tandem: one training job across AMD and NVIDIA GPUs.",
          .examples =
              "  tandem train                     train a model on two islands of two ranks\n"
              "  tandem perf pingpong --bytes 8   latency of a short message\n"
              "  tandem run -n 4 -- ./program     start four ranks of your own program\n"};
}

std::string overview() {
  const usage own = own_usage();
  std::string text = fmt::format("{}\n\nusage: {} {}\n\n", own.summary, own.command, own.arguments);
  for (const command& c : commands) text += fmt::format("  {:<11} {}\n", c.name, c.summary);
  return text + "\nExamples:\n" + own.examples +
         "\ntandem SUBCOMMAND --help describes a subcommand.\n";
}

/// `tandem` itself, then all subcommands.
std::vector<command_description> describe_all() {
  command_description own{.summary = "one training job across AMD and NVIDIA GPUs",
                          .text = own_usage()};
  own.arguments.push_back({.name = "SUBCOMMAND", .help = "as listed"});
  own.options.push_back({.name = "help", .short_name = "h", .help = "print the subcommands"});
  own.options.push_back({.name = "version", .help = "as tandem version"});
  std::vector<command_description> all;
  for (const command& c : commands) {
    own.arguments[0].words.emplace_back(c.name);
    std::ranges::move(describe_command(std::string(c.name), std::string(c.summary), c.main),
                      std::back_inserter(all));
  }
  all.insert(all.begin(), std::move(own));
  return all;
}

int completion_main(arguments args) {
  return completion::completion_main(args, describe_all);
}

int manual_main(arguments args) {
  return manual::manual_main(args, subcommands(), describe_all);
}

int help_main(arguments args) {
  std::string subcommand;
  command_line line({.command = "tandem help",
                     .arguments = "[SUBCOMMAND]",
                     .summary = "The help of a subcommand; without one, the list of subcommands.",
                     .examples = "  tandem help train\n"});
  line.positional("SUBCOMMAND", subcommand, "as after tandem", true, subcommands());
  if (!line.parse(args)) return success;
  if (subcommand.empty()) {
    print(overview());
    return success;
  }
  const std::vector<std::string> help{"--help"};
  return find_command(subcommand).main(help);
}

int options_main(arguments args) {
  settings options;
  command_line line({.command = "tandem options",
                     .arguments = "[engine options]",
                     .summary =
                         "Every engine option: name, variable, unit, default, and the current "
                         "value.",
                     .examples = "  tandem options\n  TANDEM_SPIN_US=0 tandem options\n"});
  line.engine_options(options);
  if (!line.parse(args)) return success;
  const settings defaults;
  for (const tandem::option& o : option_table()) {
    print(fmt::format("--{:<24} {:<32} default {:<8} current {:<8} [{}]\n    {}\n", o.name,
                      o.environment, o.get(defaults), o.get(options), o.unit, o.help));
  }
  return success;
}

int version_main(arguments args) {
  command_line line({.command = "tandem version",
                     .arguments = "",
                     .summary = "Version, commit and compiler.",
                     .examples = "  tandem version\n"});
  if (!line.parse(args)) return success;
  print(fmt::format("tandem {} ({})\nbuilt with {} and Boost {}.{}.{}\n", version(), commit(),
#ifdef __clang__
                    "clang " __clang_version__,
#else
                    "GCC " __VERSION__,
#endif
                    BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100));
  return success;
}

/// One line on standard error; the exit status.
int report(std::string_view who, std::exception_ptr failure) {
  fmt::print(stderr, "{}: {}\n", who, describe(failure));
  try {
    std::rethrow_exception(failure);
  } catch (const error& e) {
    return e.code() == errc::bad_option ? wrong_usage : tandem::cli::failure;
  } catch (...) {
    return tandem::cli::failure;
  }
}

int tandem_main(arguments args) {
  std::string who = "tandem";
  try {
    log_to_stderr(log_level::warning);
    if (args.empty()) {
      fmt::print(stderr, "{}", overview());
      return wrong_usage;
    }
    std::string_view name = args[0];
    if (name == "--help" || name == "-h") name = "help";
    if (name == "--version") name = "version";
    const command& chosen = find_command(name);
    who += fmt::format(" {}", chosen.name);
    const int status = chosen.main(args.subspan(1));
    finish_output();
    return status;
  } catch (...) {
    return report(who, std::current_exception());
  }
}

}  // namespace
}  // namespace tandem::cli

int main(int count, char** values) {
  tandem::cli::prepare_process();
  const std::vector<std::string> args(values + 1, values + count);
  const int status = tandem::cli::tandem_main(args);
  // A driver that does not return may hold the loader's lock, for which `exit` would wait.
  if (tandem::detail::abandoned_calls() > 0) {
    std::fflush(nullptr);
    ::_exit(status);
  }
  return status;
}
