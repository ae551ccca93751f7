#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <tandem/channels.hpp>
#include <tandem/error.hpp>

#include "cli/command_line.hpp"
#include "cli/console.hpp"
#include "cli/output_file.hpp"
#include "commands.hpp"
#include "rails/table.hpp"

namespace tandem::rails {
namespace {

std::string json_lines(const std::vector<rail_choice>& choices) {
  std::string lines;
  for (const rail_choice& one : choices) lines += json(one) + '\n';
  return lines;
}

/// A job with --rdma on fails for the same reason.
void require_rdma(const std::vector<rail_choice>& choices) {
  for (const rail_choice& one : choices) {
    if (!one.chosen || !one.rdma.empty()) continue;
    throw error(errc::bad_input,
                fmt::format("{} is a rail without RDMA: {}", one.interface, one.rdma_reason),
                "--rdma auto uses it without RDMA");
  }
}

}  // namespace

int rails_main(std::span<const std::string> args) {
  settings options;
  std::string file;
  cli::command_line line(
      {.command = "tandem rails",
       .arguments = "[--rails LIST] [options]",
       .summary =
           "Every network interface of this machine: whether a job would use it as a rail, and "
           "why, and its RDMA port. LIST is comma-separated: an interface (eth0, eth*), an "
           "address, a subnet (10.0.0.0/24, fd00::/64); ^ before an item excludes it; a number "
           "is the maximum number of rails. TANDEM_RAILS takes the same list.",
       .examples = "  tandem rails\n"
                   "  tandem rails --rails 'eth*,^eth3'     all eth interfaces but one\n"
                   "  tandem rails --rails 10.1.0.0/16,2    at most two in a subnet\n"
                   "  TANDEM_RAILS=^docker0 tandem rails    without docker0\n"
                   "  tandem rails --json rails.jsonl       one line of JSON per interface\n"});
  line.output("json", file, "file to write, with one line of JSON for each interface");
  line.engine_options(options);
  if (!line.parse(args)) return cli::success;

  const cli::output_file lines("--json", file);
  lines.check();
  const std::vector<rail_choice> choices = explain_rails(options);
  lines.write(json_lines(choices));
  cli::print(table(choices));
  const bool any = std::any_of(choices.begin(), choices.end(),
                               [](const rail_choice& one) { return one.chosen; });
  if (!any) {
    throw error(errc::bad_input, "no interface can be a rail",
                "the table gives the reasons; change TANDEM_RAILS or bring an interface up");
  }
  if (options.rdma == rdma_use::on) require_rdma(choices);
  return cli::success;
}

}  // namespace tandem::rails
