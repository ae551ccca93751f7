// What subcommands accept, for manual pages and completions.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace tandem::cli {

/// A subcommand of a subcommand, with a help of its own: "pipeline" of `tandem plan`.
struct nested_command {
  std::string name;
  std::string summary;  ///< a few words, for lists: "print a pipeline schedule"
};

/// What a subcommand is, for its `--help`.
struct usage {
  std::string command;    ///< "tandem perf"
  std::string arguments;  ///< "OP [options]"
  std::string summary;    ///< one sentence
  std::string examples;   ///< lines "  tandem perf pingpong --bytes 8", each with its end of line
  std::vector<nested_command> nested = {};
};

struct option_description {
  std::string name = {};
  std::string short_name = {};  ///< one character; may be empty
  std::string value_name = {};  ///< empty for a flag
  std::string help = {};
  std::string default_text = {};        ///< the default as text; empty if the help shows none
  std::vector<std::string> words = {};  ///< values that have a name
  bool is_path = false;                 ///< the value is a file or folder, or one of the words
  std::string environment = {};         ///< of an engine option: TANDEM_EAGER_BYTES
  std::string unit = {};                ///< of an engine option: bytes, us, s, or the valid words
  bool is_flag() const noexcept { return value_name.empty(); }
  bool is_engine() const noexcept { return !environment.empty(); }
};

struct argument_description {
  std::string name = {};
  std::string help = {};
  bool optional = false;
  std::vector<std::string> words = {};  ///< values that have a name
  std::string default_text = {};
};

struct command_description {
  std::string name = {};     ///< "perf", "plan pipeline"; empty for `tandem` itself
  std::string summary = {};  ///< a few words, for lists: "measure channels and collectives"
  usage text = {};
  std::vector<argument_description> arguments = {};
  std::vector<option_description> options = {};  ///< including --help
  argument_description rest = {};  ///< a command with its own options; without name: takes none
};

/// The description of a subcommand, and of those nested in it.
/// @param main  of the subcommand, which begins by parsing its `command_line`
std::vector<command_description> describe_command(const std::string& name,
                                                  const std::string& summary,
                                                  int (*main)(std::span<const std::string> args));

}  // namespace tandem::cli
