// `tandem completion`: completions for shells, made from what the subcommands accept.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/description.hpp"

namespace tandem::completion {

using commands = std::span<const cli::command_description>;

/// Scripts that complete the words of `tandem`: `all[0]` is the program itself. Values complete
/// where they are words or paths, the arguments of `tandem run` as a command of its own.
std::string bash_script(commands all);
std::string zsh_script(commands all);
std::string fish_script(commands all);

/// Text in single quotes, as bash and zsh read them.
std::string quoted(std::string_view text);

/// Prints the script for a shell. Returns the exit status.
/// @param describe_all  `tandem` itself and all subcommands; called once the arguments are parsed
/// @par Errors `errc::bad_option`: no such shell.
int completion_main(std::span<const std::string> args,
                    std::vector<cli::command_description> (*describe_all)());

}  // namespace tandem::completion
