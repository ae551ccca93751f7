#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tandem/settings.hpp>
#include <utility>
#include <vector>

#include "cli/description.hpp"

namespace tandem::cli {

/// The command line of one subcommand. Options are bound to variables, whose values at declaration
/// are the defaults. Declared variables must outlive `parse`.
///
///   cli::command_line line({.command = "tandem perf", ...});
///   line.positional("OP", what, "what to measure");
///   line.option("ranks", ranks, 1, 1024, "processes to start");
///   line.engine_options(options);
///   if (!line.parse(args)) return 0;
///
/// @par Errors  `errc::bad_option`, one line: the option, the reason, and the closest valid name.
///   Some variables may already have their new values.
class command_line {
 public:
  explicit command_line(usage text);
  ~command_line();

  /// An option name may have a short form: "ranks,n". One overload per value type. An initial value
  /// below `min_value` means that there is no default, and the help shows none.
  void option(const std::string& name, std::string& value, std::string help);
  void option(const std::string& name, int& value, int min_value, int max_value, std::string help);
  void option(const std::string& name, double& value, double min_value, double max_value,
              std::string help);
  /// The file that an `output_file` writes; the help shows it as FILE, and no other option so.
  void output(const std::string& name, std::string& path, std::string help);
  /// A file or folder that the command reads; the help shows it as PATH.
  void input(const std::string& name, std::string& path, std::string help);
  /// The value is one of the words.
  void choice(const std::string& name, std::string& value, std::vector<std::string_view> words,
              std::string help);
  /// Bytes: 64K, 16M.
  void bytes(const std::string& name, std::size_t& value, std::string help);
  /// Several lengths: 8,64K,16M.
  void bytes_list(const std::string& name, std::vector<std::size_t>& value, std::string help);
  /// A flag without a value.
  void flag(const std::string& name, bool& value, std::string help);

  /// The next argument without a dash. If an optional one is missing, the value is unchanged.
  /// @param words  values to complete; the caller checks the value
  void positional(std::string name, std::string& value, std::string help, bool optional = false,
                  std::vector<std::string_view> words = {});
  /// All arguments from the first non-option, or after `--`: a command with its own options.
  void rest(std::string name, std::vector<std::string>& values, std::string help);

  /// All engine options (`option_table`). `parse` fills `options` from the environment, then from
  /// the command line, checks them, and sets the minimum level of the process's log.
  void engine_options(settings& options);

  /// False if --help was given and the help printed, or taken by `describe_command`: the caller
  /// returns 0.
  bool parse(std::span<const std::string> args);

  /// True if the option was given on this command line.
  bool given(std::string_view name) const;
  /// The engine options of this command line as environment variables, for child processes.
  std::vector<std::pair<std::string, std::string>> engine_environment() const;

  std::string help() const;
  command_description description() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace tandem::cli
