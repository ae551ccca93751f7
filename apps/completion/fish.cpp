#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tandem/version.hpp>

#include "completion/completion.hpp"

namespace tandem::completion {
namespace {

using cli::command_description;
using cli::option_description;

/// Text in single quotes, in which fish knows two escapes.
std::string fish_quoted(std::string_view text) {
  std::string made(1, '\'');
  for (const char c : text) {
    if (c == '\'' || c == '\\') made += '\\';
    made += c;
  }
  return made + '\'';
}

/// When the options of a command are completed: after its words, and not after those of a nested
/// one.
std::string condition(const command_description& of) {
  if (of.name.empty()) return "__fish_use_subcommand";
  std::string text;
  std::size_t begin = 0;
  while (begin < of.name.size()) {
    const std::size_t end = std::min(of.name.find(' ', begin), of.name.size());
    text += fmt::format("{}__fish_seen_subcommand_from {}", begin == 0 ? "" : "; and ",
                        of.name.substr(begin, end - begin));
    begin = end + 1;
  }
  for (const cli::nested_command& each : of.text.nested) {
    text += fmt::format("; and not __fish_seen_subcommand_from {}", each.name);
  }
  return text;
}

std::string option_line(const std::string& when, const option_description& of) {
  std::string line = fmt::format("complete -c tandem -n '{}' -l {}", when, of.name);
  if (!of.short_name.empty()) line += " -s " + of.short_name;
  if (of.is_path) {
    line += " -r -F";
  } else if (!of.is_flag()) {
    line += " -x";
  }
  if (!of.words.empty()) {
    line += " -a " + fish_quoted(fmt::format("{}", fmt::join(of.words, " ")));
  }
  return fmt::format("{} -d {}\n", line, fish_quoted(of.help));
}

}  // namespace

std::string fish_script(commands all) {
  std::string text = fmt::format(
      "# Completion of tandem {} for fish, printed by: tandem completion fish\n"
      "complete -c tandem -f\n",
      version());
  for (const command_description& command : all) {
    const std::string when = condition(command);
    if (!command.name.empty() && command.name.find(' ') == std::string::npos) {
      text += fmt::format("complete -c tandem -n __fish_use_subcommand -a {} -d {}\n", command.name,
                          fish_quoted(command.summary));
    }
    for (const option_description& each : command.options) text += option_line(when, each);
    if (!command.name.empty() && !command.arguments.empty()) {
      text += fmt::format("complete -c tandem -n '{}' -a '{}'\n", when,
                          fmt::join(command.arguments[0].words, " "));
    }
    if (!command.rest.name.empty()) {
      text += fmt::format("complete -c tandem -n '{}' -a '(__fish_complete_command)'\n", when);
    }
  }
  return text;
}

}  // namespace tandem::completion
