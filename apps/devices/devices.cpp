#include "devices/devices.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <tandem/error.hpp>

#include "cli/command_line.hpp"
#include "cli/console.hpp"
#include "cli/output_file.hpp"
#include "devices/table.hpp"

namespace tandem::inventory {
namespace {

std::string json_lines(const std::vector<vendor>& all) {
  std::string lines;
  for (const vendor& one : all) {
    for (const device& each : one.devices) lines += json(each) + '\n';
  }
  return lines;
}

}  // namespace

int devices_main(std::span<const std::string> args) {
  std::string file;
  cli::command_line line(
      {.command = "tandem devices",
       .arguments = "[options]",
       .summary =
           "Every accelerator of this machine: what it is, what can be done with it, and the "
           "reason for each no. Without any it says what is missing, and ends well.",
       .examples = "  tandem devices\n"
                   "  CUDA_VISIBLE_DEVICES=1 tandem devices    what one rank would see\n"
                   "  tandem devices --json devices.jsonl      for programs, one line each\n"});
  line.option("json", file, "write one line of JSON for each device to this file");
  if (!line.parse(args)) return cli::success;
  const cli::output_file lines("--json", file);
  lines.check();
  const std::vector<vendor> all = take();
  lines.write(json_lines(all));
  fmt::print("{}", table(all));
  return cli::success;
}

}  // namespace tandem::inventory
