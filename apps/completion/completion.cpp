#include "completion/completion.hpp"

#include <fmt/format.h>

#include <tandem/error.hpp>
#include <tandem/settings.hpp>

#include "cli/command_line.hpp"
#include "cli/console.hpp"

namespace tandem::completion {

std::string quoted(std::string_view text) {
  std::string made(1, '\'');
  for (const char c : text) made += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return made + '\'';
}

int completion_main(std::span<const std::string> args,
                    std::vector<cli::command_description> (*describe_all)()) {
  const std::vector<std::string_view> shells{"bash", "zsh", "fish"};
  std::string shell;
  cli::command_line line(
      {.command = "tandem completion",
       .arguments = "bash|zsh|fish",
       .summary = "Prints a script with which the shell completes subcommands, options and their "
                  "values. `cmake --install` installs it where shells look for it.",
       .examples = "  source <(tandem completion bash)                  in ~/.bashrc\n"
                   "  tandem completion zsh >~/.zfunc/_tandem           a folder of fpath\n"
                   "  tandem completion fish | source                   in config.fish\n"});
  line.positional("SHELL", shell, "bash, zsh or fish", false, shells);
  if (!line.parse(args)) return cli::success;
  constexpr std::string (*scripts[])(commands all) = {bash_script, zsh_script, fish_script};
  for (std::size_t i = 0; i < shells.size(); ++i) {
    if (shell != shells[i]) continue;
    cli::print(scripts[i](describe_all()));
    return cli::success;
  }
  throw error(errc::bad_option, fmt::format("{}: no completion for this shell", shell),
              suggestion_for(shell, shells));
}

}  // namespace tandem::completion
