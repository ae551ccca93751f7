#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tandem/version.hpp>

#include "completion/completion.hpp"

namespace tandem::completion {
namespace {

using cli::argument_description;
using cli::command_description;
using cli::option_description;

/// Text within a specification of _arguments, in which these characters end a part.
std::string escape(std::string_view text, std::string_view special) {
  std::string made;
  for (const char c : text) {
    if (c == '\\' || special.find(c) != std::string_view::npos) made += '\\';
    made += c;
  }
  return made;
}

std::string words_action(const std::vector<std::string>& words, bool is_path) {
  const std::string list = fmt::format("({})", fmt::join(words, " "));
  if (!is_path) return words.empty() ? " " : list;
  return words.empty() ? "_files" : fmt::format("{{_files; compadd {}}}", fmt::join(words, " "));
}

std::string option_lines(const option_description& of) {
  std::string rest = fmt::format("[{}]", escape(of.help, "[]"));
  if (!of.is_flag()) {
    rest += fmt::format(":{}:{}", escape(of.value_name, ":"), words_action(of.words, of.is_path));
  }
  const std::string name = "--" + of.name + (of.is_flag() ? "" : "=");
  if (of.short_name.empty()) return fmt::format("    {} \\\n", quoted(name + rest));
  const std::string both = fmt::format("(-{} --{})", of.short_name, of.name);
  const std::string brief = '-' + of.short_name + (of.is_flag() ? "" : "+");
  return fmt::format("    {} \\\n    {} \\\n", quoted(both + brief + rest),
                     quoted(both + name + rest));
}

std::string function_of(const command_description& command) {
  std::string name = command.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  std::string text = fmt::format("\n_tandem_{}() {{\n", name);
  for (const cli::nested_command& each : command.text.nested) {
    text += fmt::format(
        "  if [[ $words[2] == {0} ]] && (( CURRENT > 2 )); then\n"
        "    shift words; (( CURRENT-- )); _tandem_{1}_{0}; return\n  fi\n",
        each.name, name);
  }
  text += "  _arguments -S \\\n";
  for (const option_description& each : command.options) text += option_lines(each);
  for (const argument_description& each : command.arguments) {
    const std::string colons = each.optional ? "::" : ":";
    text += fmt::format("    {} \\\n", quoted('1' + colons + escape(each.name, ":") + ':' +
                                              words_action(each.words, false)));
  }
  if (!command.rest.name.empty()) {
    text += "    '(-)1:command:_command_names -e' \\\n    '*::arguments:_normal' \\\n";
  }
  return text + "    && return 0\n}\n";
}

}  // namespace

std::string zsh_script(commands all) {
  std::string text = fmt::format(
      "#compdef tandem\n# Completion of tandem {} for zsh, printed by: tandem completion zsh\n",
      version());
  std::string names, own_options;
  for (const command_description& each : all) {
    if (each.name.empty()) {
      for (const option_description& option : each.options) own_options += option_lines(option);
      continue;
    }
    text += function_of(each);
    if (each.name.find(' ') == std::string::npos) {
      names += fmt::format("    {}\n", quoted(each.name + ':' + escape(each.summary, ":")));
    }
  }
  return text + fmt::format(R"(
_tandem() {{
  local curcontext="$curcontext" state line
  local -a subcommands=(
{}  )
  _arguments -C -S \
{}    '1: :->subcommand' \
    '*:: :->arguments'
  case $state in
    subcommand) _describe -t commands subcommand subcommands ;;
    arguments) (( $+functions[_tandem_$words[1]] )) && _tandem_$words[1] ;;
  esac
}}

# As a function of fpath, or after `source`.
if [[ $funcstack[1] == _tandem ]]; then _tandem "$@"; else compdef _tandem tandem; fi
)",
                            names, own_options);
}

}  // namespace tandem::completion
