// State of `command_line`; private to apps/cli.
#pragma once

#include <boost/program_options/option.hpp>
#include <tandem/error.hpp>
#include <utility>

#include "command_line.hpp"

namespace tandem::cli {

struct entry : option_description {
  std::function<void(const std::string&)> set;
  const tandem::option* engine = nullptr;
  bool given = false;
};

struct positional_argument : argument_description {
  std::string* value = nullptr;
};

struct command_line::state {
  usage text;
  std::vector<entry> entries;
  std::vector<positional_argument> positionals;
  argument_description rest_shown;
  std::vector<std::string>* rest = nullptr;
  settings* engine = nullptr;

  entry& add(std::string name, std::string value_name, std::string help, std::string default_text,
             std::function<void(const std::string&)> set);
  entry* find(std::string_view name);
  std::string bare_name(const std::string& name) const { return name.substr(0, name.find(',')); }
  /// Number of arguments before the command that `rest` takes.
  std::size_t count_own_arguments(std::span<const std::string> args);
  std::vector<boost::program_options::option> read(const std::vector<std::string>& args);
  void fill_positionals(const std::vector<std::string>& values);
  std::string suggestion_for(std::string_view word) const;
};

/// What `describe_command` collects in place of printed help; null while none runs.
extern std::vector<command_description>* described;

/// An error in the command line.
inline error usage_error(std::string what, std::string advice = {}) {
  return error(errc::bad_option, std::move(what), std::move(advice));
}

}  // namespace tandem::cli
