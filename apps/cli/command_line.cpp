#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdio>
#include <tandem/detail/blocking_call.hpp>

#include "command_line_state.hpp"
#include "console.hpp"

namespace tandem::cli {
namespace po = boost::program_options;
namespace {

std::string left_column(const option_description& e) {
  const std::string value = e.value_name.empty() ? "" : " " + e.value_name;
  const std::string short_name =
      e.short_name.empty() ? "" : fmt::format("-{}{}, ", e.short_name, value);
  return fmt::format("  {}--{}{}", short_name, e.name, value);
}

option_description help_option() {
  return {.name = "help", .short_name = "h", .help = "print this help"};
}

std::string help_line(const std::string& left, const std::string& help,
                      const std::string& default_text) {
  const std::string tail = default_text.empty() ? "" : fmt::format(" (default {})", default_text);
  const char* const gap = left.size() > 30 ? "\n                                " : "";
  return fmt::format("{:<30}  {}{}{}\n", left, gap, help, tail);
}

}  // namespace

entry* command_line::state::find(std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [name](const entry& e) { return e.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

std::size_t command_line::state::count_own_arguments(std::span<const std::string> args) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg == "--" || arg.size() < 2 || arg[0] != '-') return i;
    const bool is_long = arg[1] == '-';
    const bool has_value = is_long ? arg.find('=') != std::string::npos : arg.size() > 2;
    const auto takes_value = [&arg, is_long](const entry& e) {
      const std::string written = is_long ? "--" + e.name : "-" + e.short_name;
      return !e.value_name.empty() && arg == written;
    };
    if (!has_value && std::any_of(entries.begin(), entries.end(), takes_value)) ++i;
  }
  return args.size();
}

std::string command_line::state::suggestion_for(std::string_view word) const {
  std::vector<std::string_view> names{"help"};
  for (const entry& e : entries) names.push_back(e.name);
  const std::size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  const std::string_view near = nearest(word.substr(dashes), names);
  return near.empty() ? fmt::format("{} --help lists them", text.command)
                      : fmt::format("did you mean --{}?", near);
}

std::vector<po::option> command_line::state::read(const std::vector<std::string>& args) {
  po::options_description all;
  for (const entry& e : entries) {
    const std::string name = e.short_name.empty() ? e.name : e.name + "," + e.short_name;
    if (e.value_name.empty()) {
      all.add_options()(name.c_str(), "");
    } else {
      all.add_options()(name.c_str(), po::value<std::string>(), "");
    }
  }
  const int style = po::command_line_style::unix_style &
                    ~static_cast<int>(po::command_line_style::allow_guessing);
  try {
    return po::command_line_parser(args).options(all).style(style).run().options;
  } catch (const po::unknown_option& e) {
    // The library reports only "-b" for a mistyped "-bytes": report the whole argument.
    std::string word = e.get_option_name();
    for (const std::string& arg : args) {
      if (arg.starts_with(word)) {
        word = arg.substr(0, arg.find('='));
        break;
      }
    }
    throw usage_error(fmt::format("{}: no such option", word), suggestion_for(word));
  } catch (const po::invalid_syntax& e) {
    const bool missing = e.kind() == po::invalid_syntax::missing_parameter ||
                         e.kind() == po::invalid_syntax::empty_adjacent_parameter;
    const bool extra = e.kind() == po::invalid_syntax::extra_parameter;
    throw usage_error(fmt::format("{}: {}", e.get_option_name(),
                                  missing ? "its value is missing"
                                  : extra ? "takes no value"
                                          : "cannot be parsed"));
  } catch (const po::error& e) {
    throw usage_error(e.what());
  }
}

void command_line::state::fill_positionals(const std::vector<std::string>& values) {
  if (values.size() > positionals.size()) {
    throw usage_error(fmt::format("{}: unexpected argument", values[positionals.size()]),
                      fmt::format("usage: {} {}", text.command, text.arguments));
  }
  for (std::size_t i = 0; i < positionals.size(); ++i) {
    const positional_argument& argument = positionals[i];
    if (i < values.size()) {
      *argument.value = values[i];
    } else if (!argument.optional) {
      throw usage_error(fmt::format("{} is missing: {}", argument.name, argument.help),
                        fmt::format("usage: {} {}", text.command, text.arguments));
    }
  }
}

command_line::command_line(usage text) : state_(std::make_unique<state>()) {
  state_->text = std::move(text);
}
command_line::~command_line() = default;

bool command_line::parse(std::span<const std::string> args) {
  state& s = *state_;
  const std::size_t own_count = s.rest != nullptr ? s.count_own_arguments(args) : args.size();
  const std::vector<std::string> own(args.begin(), args.begin() + static_cast<long>(own_count));
  const bool wants_help = std::any_of(
      own.begin(), own.end(), [](const std::string& a) { return a == "--help" || a == "-h"; });
  if (wants_help) {
    if (described != nullptr) {
      described->push_back(description());
    } else {
      print(help());
    }
    return false;
  }
  const std::vector<po::option> parsed = s.read(own);
  if (s.engine != nullptr) *s.engine = settings::from_environment(*s.engine);
  std::vector<std::string> values;
  for (const po::option& o : parsed) {
    entry* const e = o.position_key >= 0 ? nullptr : s.find(o.string_key);
    if (e == nullptr) {
      values.insert(values.end(), o.value.begin(), o.value.end());
    } else {
      const std::string value = o.value.empty() ? "" : o.value.front();
      if (value.starts_with("--") && s.find(value.substr(2)) != nullptr) {
        throw usage_error(fmt::format("--{}: its value is missing", e->name));
      }
      e->given = true;
      e->set(value);
    }
  }
  s.fill_positionals(values);
  if (s.engine != nullptr) {
    s.engine->check();
    log_to_stderr(s.engine->log);
    detail::set_driver_timeout(s.engine->meet_timeout);
  }
  if (s.rest != nullptr) {
    const bool dashes = own_count < args.size() && args[own_count] == "--";
    s.rest->assign(args.begin() + static_cast<long>(own_count + (dashes ? 1 : 0)), args.end());
    if (s.rest->empty()) {
      throw usage_error(fmt::format("{} is missing: {}", s.rest_shown.name, s.rest_shown.help),
                        fmt::format("usage: {} {}", s.text.command, s.text.arguments));
    }
  }
  return true;
}

bool command_line::given(std::string_view name) const {
  const entry* const e = state_->find(name);
  return e != nullptr && e->given;
}

std::vector<std::pair<std::string, std::string>> command_line::engine_environment() const {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const entry& e : state_->entries) {
    if (e.engine == nullptr || !e.given) continue;
    variables.emplace_back(e.engine->environment, e.engine->get(*state_->engine));
  }
  return variables;
}

std::string command_line::help() const {
  const state& s = *state_;
  std::string text =
      fmt::format("{}\n\nusage: {} {}\n\n", s.text.summary, s.text.command, s.text.arguments);
  for (const positional_argument& p : s.positionals) {
    text += help_line("  " + p.name, p.help, *p.value);
  }
  if (s.rest != nullptr) text += help_line("  " + s.rest_shown.name, s.rest_shown.help, "");
  for (const entry& e : s.entries) {
    if (e.engine == nullptr) text += help_line(left_column(e), e.help, e.default_text);
  }
  text += help_line(left_column(help_option()), help_option().help, "");
  if (s.engine != nullptr) {
    text += "\nEngine (also as TANDEM_* variables, see `tandem options`):\n";
    for (const entry& e : s.entries) {
      if (e.engine != nullptr) text += help_line("  --" + e.name, e.help, e.default_text);
    }
  }
  if (!s.text.examples.empty()) text += "\nExamples:\n" + s.text.examples;
  return text;
}

command_description command_line::description() const {
  const state& s = *state_;
  command_description made;
  made.text = s.text;
  made.arguments.assign(s.positionals.begin(), s.positionals.end());
  made.options.assign(s.entries.begin(), s.entries.end());
  made.options.push_back(help_option());
  made.rest = s.rest_shown;
  return made;
}

std::vector<command_description>* described = nullptr;

std::vector<command_description> describe_command(const std::string& name,
                                                  const std::string& summary,
                                                  int (*main)(std::span<const std::string> args)) {
  std::vector<command_description> found;
  described = &found;
  const struct at_end {
    ~at_end() { described = nullptr; }
  } guard;
  const auto ask = [&](std::vector<std::string> args, const std::string& of,
                       const std::string& what) {
    args.emplace_back("--help");
    main(args);
    found.back().name = of;
    found.back().summary = what;
  };
  ask({}, name, summary);
  const std::vector<nested_command> nested = found.back().text.nested;
  for (const nested_command& each : nested) ask({each.name}, name + " " + each.name, each.summary);
  return found;
}

}  // namespace tandem::cli
