#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>
#include <tandem/version.hpp>

#include "completion/completion.hpp"

namespace tandem::completion {
namespace {

using cli::command_description;
using cli::option_description;

/// Stands for files and folders, and for a command with its own arguments.
constexpr const char* path_word = "<path>";
constexpr const char* command_word = "<command>";

constexpr const char* driver = R"(
_tandem_command() { # INDEX: of the word with which another command begins
  if declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  elif ((COMP_CWORD == $1)); then
    mapfile -t COMPREPLY < <(compgen -c -- "$current")
  else
    compopt -o default 2>/dev/null
  fi
}

_tandem() {
  local current=${COMP_WORDS[COMP_CWORD]} command='' option='' arguments=0 words='' word i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ -n $option ]]; then # bash splits --option=value at the =
      [[ $word = '=' ]] || option=''
    elif [[ $word != -* && $arguments = 0 ]] && _tandem_options "${command:+$command }$word" >/dev/null; then
      command=${command:+$command }$word
    elif [[ $word = -- || $word != -* ]] && [[ $(_tandem_arguments "$command") = '<command>' ]]; then
      [[ $word = -- ]] && ((++i))
      _tandem_command "$i"
      return
    elif [[ $word != -* ]]; then
      ((++arguments))
    elif _tandem_values "$command $word" >/dev/null; then
      option=$word
    fi
  done
  [[ $current = '=' ]] && current=''
  if [[ -n $option ]]; then
    words=$(_tandem_values "$command $option")
  elif [[ $current = -* ]]; then
    words=$(_tandem_options "$command")
  elif ((arguments == 0)); then
    words=$(_tandem_arguments "$command")
  fi
  case $words in
    '<command>') _tandem_command "$COMP_CWORD" ;;
    *'<path>'*)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -W "${words/<path>/}" -- "$current"; compgen -f -- "$current")
      ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current") ;;
  esac
}
complete -F _tandem tandem
)";

std::string words_of(const option_description& of) {
  std::vector<std::string> words = of.words;
  if (of.is_path) words.emplace_back(path_word);
  return fmt::format("{}", fmt::join(words, " "));
}

std::string words_of_arguments(const command_description& of) {
  if (!of.rest.name.empty()) return command_word;
  return of.arguments.empty() ? "" : fmt::format("{}", fmt::join(of.arguments[0].words, " "));
}

std::string function(const char* name, const char* what, const std::string& cases) {
  return fmt::format("\n{}() {{ # {}\n  case $1 in\n{}    *) return 1 ;;\n  esac\n}}\n", name, what,
                     cases);
}

std::string options_case(const command_description& of) {
  std::vector<std::string> names;
  for (const option_description& each : of.options) {
    names.push_back("--" + each.name);
    if (!each.short_name.empty()) names.push_back("-" + each.short_name);
  }
  return fmt::format("    {}) echo '{}' ;;\n", quoted(of.name), fmt::join(names, " "));
}

}  // namespace

std::string bash_script(commands all) {
  std::string options, arguments;
  std::map<std::string, std::vector<std::string>> patterns_of;  // by words
  std::set<std::string> seen;
  for (const command_description& command : all) {
    options += options_case(command);
    arguments +=
        fmt::format("    {}) echo '{}' ;;\n", quoted(command.name), words_of_arguments(command));
    for (const option_description& each : command.options) {
      if (each.is_flag()) continue;
      std::vector<std::string>& patterns = patterns_of[words_of(each)];
      const std::string name = quoted(" --" + each.name);
      if (each.is_engine()) {  // the same for all subcommands
        if (seen.insert(each.name).second) patterns.push_back('*' + name);
        continue;
      }
      patterns.push_back(quoted(fmt::format("{} --{}", command.name, each.name)));
      if (!each.short_name.empty())
        patterns.push_back(quoted(fmt::format("{} -{}", command.name, each.short_name)));
    }
  }
  std::string values;
  for (const auto& [words, patterns] : patterns_of) {
    values += fmt::format("    {})\n      echo '{}' ;;\n", fmt::join(patterns, " | "), words);
  }
  return fmt::format("# Completion of tandem {} for bash, printed by: tandem completion bash\n",
                     version()) +
         function("_tandem_options", "SUBCOMMAND", options) +
         function("_tandem_values", "\"SUBCOMMAND --OPTION\"; fails where it takes no value",
                  values) +
         function("_tandem_arguments", "SUBCOMMAND", arguments) + driver;
}

}  // namespace tandem::completion
