#include "manual/manual.hpp"

#include <fmt/format.h>

#include <tandem/error.hpp>
#include <tandem/settings.hpp>

#include "cli/command_line.hpp"
#include "cli/console.hpp"

namespace tandem::manual {
namespace {

using cli::command_description;

const command_description& find_page(const std::string& name,
                                     std::span<const command_description> all) {
  constexpr std::string_view prefix = "tandem-";
  const std::string_view wanted =
      name.starts_with(prefix) ? std::string_view(name).substr(prefix.size()) : name;
  std::vector<std::string> pages;
  for (const command_description& each : all) {
    pages.push_back(page_name(each));
    if (!each.name.empty()) pages.back().erase(0, prefix.size());
    if (pages.back() == wanted) return each;
  }
  throw error(errc::bad_option, fmt::format("{}: no such page", name),
              suggestion_for(wanted, std::vector<std::string_view>(pages.begin(), pages.end())));
}

}  // namespace

int manual_main(std::span<const std::string> args, std::span<const std::string_view> subcommands,
                std::vector<command_description> (*describe_all)()) {
  std::string page = "tandem";
  bool list = false;
  cli::command_line line(
      {.command = "tandem manual",
       .arguments = "[PAGE] [--list]",
       .summary = "Prints a manual page for man(1): of tandem, of a subcommand (perf), or of one "
                  "of its own (plan-pipeline).",
       .examples = "  tandem manual perf | man -l -\n"
                   "  tandem manual --list\n"});
  line.positional("PAGE", page, "the page", true, {subcommands.begin(), subcommands.end()});
  line.flag("list", list, "print the names of all pages");
  if (!line.parse(args)) return cli::success;
  const std::vector<command_description> all = describe_all();
  if (!list) {
    cli::print(page_of(find_page(page, all), all));
    return cli::success;
  }
  for (const command_description& each : all) cli::print(page_name(each) + '\n');
  return cli::success;
}

}  // namespace tandem::manual
