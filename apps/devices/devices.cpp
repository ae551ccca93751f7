#include <fmt/format.h>

#include <cstdio>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/error.hpp>
#include <tandem/settings.hpp>

#include "cli/command_line.hpp"
#include "cli/console.hpp"
#include "cli/output_file.hpp"
#include "commands.hpp"
#include "devices/inventory.hpp"

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
           "Every accelerator of this machine: its properties, its capabilities, and the reason "
           "for each missing one. Without accelerators it prints what is missing, and the exit "
           "status is 0.",
       .examples = "  tandem devices\n"
                   "  CUDA_VISIBLE_DEVICES=1 tandem devices    the devices one rank would see\n"
                   "  tandem devices --json devices.jsonl      one line of JSON per device\n"});
  line.output("json", file, "file to write, with one line of JSON for each device");
  if (!line.parse(args)) return cli::success;
  const cli::output_file lines("--json", file);
  detail::set_driver_timeout(settings::from_environment().meet_timeout);
  lines.check();
  const std::vector<vendor> all = take_inventory();
  lines.write(json_lines(all));
  cli::print(table(all));
  return cli::success;
}

}  // namespace tandem::inventory
