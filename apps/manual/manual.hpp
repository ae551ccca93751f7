// `tandem manual`: manual pages, made from what the subcommands accept.
#pragma once

#include <span>
#include <string>

#include "cli/description.hpp"

namespace tandem::manual {

/// "tandem", "tandem-perf", "tandem-plan-pipeline": the name of a page.
std::string page_name(const cli::command_description& command);

/// The manual page of `tandem` (`all[0]`) or of a subcommand, for man(7).
std::string page_of(const cli::command_description& command,
                    std::span<const cli::command_description> all);

/// Prints a page, or the list of pages. Returns the exit status.
/// @param subcommands  their names, for completions
/// @param describe_all  `tandem` itself and all subcommands; called once the arguments are parsed
/// @par Errors `errc::bad_option`: no such page.
int manual_main(std::span<const std::string> args, std::span<const std::string_view> subcommands,
                std::vector<cli::command_description> (*describe_all)());

}  // namespace tandem::manual
