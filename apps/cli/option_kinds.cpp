#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tandem/detail/number_text.hpp>

#include "cli/text.hpp"
#include "command_line_state.hpp"

namespace tandem::cli {
namespace {

template <class Number>
Number parse_number(const std::string& name, const std::string& text, Number min_value,
                    Number max_value, std::string_view kind) {
  Number number{};
  if (detail::read_number(text, number) == detail::number_kind::not_a_number) {
    throw usage_error(fmt::format("--{}={}: not {}", name, text, kind));
  }
  if (!(number >= min_value && number <= max_value)) {
    throw usage_error(fmt::format("--{}={}: outside {} to {}", name, text, min_value, max_value));
  }
  return number;
}

std::size_t parse_bytes_of(const std::string& name, const std::string& text) {
  try {
    return parse_bytes(text);
  } catch (const error& e) {
    throw usage_error(fmt::format("--{}={}", name, e.context().detail), e.context().advice);
  }
}

/// The valid words of an engine option's unit: "auto, 0 or 1" has three, "auto or bytes" one, and
/// "bytes" none.
std::vector<std::string> words_of_unit(std::string_view unit) {
  constexpr std::string_view kinds[] = {"bytes", "name", "path"};
  std::vector<std::string> words;
  std::string text(unit);
  if (const std::size_t last = text.find(" or "); last != std::string::npos)
    text.replace(last, 4, ", ");
  if (text.find(", ") == std::string::npos) return words;
  for (const std::string& part : split_commas(text)) {
    const std::string word = part.substr(part.starts_with(' ') ? 1 : 0);
    if (std::find(std::begin(kinds), std::end(kinds), word) == std::end(kinds))
      words.push_back(word);
  }
  return words;
}

}  // namespace

entry& command_line::state::add(std::string name, std::string value_name, std::string help,
                                std::string default_text,
                                std::function<void(const std::string&)> set) {
  entry e;
  const std::size_t comma = name.find(',');
  e.name = name.substr(0, comma);
  if (comma != std::string::npos) e.short_name = name.substr(comma + 1);
  e.value_name = std::move(value_name);
  e.help = std::move(help);
  e.default_text = std::move(default_text);
  e.set = std::move(set);
  return entries.emplace_back(std::move(e));
}

void command_line::option(const std::string& name, std::string& value, std::string help) {
  const auto set = [&value](const std::string& text) { value = text; };
  state_->add(name, "TEXT", std::move(help), value, set);
}

void command_line::output(const std::string& name, std::string& path, std::string help) {
  const auto set = [&path](const std::string& text) { path = text; };
  state_->add(name, "FILE", std::move(help), path, set).is_path = true;
}

void command_line::input(const std::string& name, std::string& path, std::string help) {
  const auto set = [&path](const std::string& text) { path = text; };
  state_->add(name, "PATH", std::move(help), path, set).is_path = true;
}

void command_line::option(const std::string& name, int& value, int min_value, int max_value,
                          std::string help) {
  const auto set = [&value, min_value, max_value,
                    bare = state_->bare_name(name)](const std::string& text) {
    value = parse_number(bare, text, min_value, max_value, "a whole number");
  };
  const std::string default_text = value < min_value ? "" : std::to_string(value);
  state_->add(name, "N", std::move(help), default_text, set);
}

void command_line::option(const std::string& name, double& value, double min_value,
                          double max_value, std::string help) {
  const auto set = [&value, min_value, max_value,
                    bare = state_->bare_name(name)](const std::string& text) {
    value = parse_number(bare, text, min_value, max_value, "a number");
  };
  state_->add(name, "X", std::move(help), value < min_value ? "" : fmt::format("{}", value), set);
}

void command_line::choice(const std::string& name, std::string& value,
                          std::vector<std::string_view> words, std::string help) {
  const std::string shown = fmt::format("{}", fmt::join(words, "|"));
  const auto set = [&value, words, bare = state_->bare_name(name)](const std::string& text) {
    if (std::find(words.begin(), words.end(), text) == words.end()) {
      const std::string_view near = nearest(text, words);
      throw usage_error(fmt::format("--{}={}: not one of {}", bare, text, fmt::join(words, ", ")),
                        near.empty() ? "" : fmt::format("did you mean {}?", near));
    }
    value = text;
  };
  state_->add(name, shown, std::move(help), value, set).words.assign(words.begin(), words.end());
}

void command_line::bytes(const std::string& name, std::size_t& value, std::string help) {
  const auto set = [&value, bare = state_->bare_name(name)](const std::string& text) {
    value = parse_bytes_of(bare, text);
  };
  state_->add(name, "BYTES", std::move(help), format_bytes(value), set);
}

void command_line::bytes_list(const std::string& name, std::vector<std::size_t>& value,
                              std::string help) {
  const auto set = [&value, bare = state_->bare_name(name)](const std::string& text) {
    std::vector<std::size_t> lengths;
    for (const std::string& part : split_commas(text))
      lengths.push_back(parse_bytes_of(bare, part));
    value = std::move(lengths);
  };
  std::vector<std::string> shown;
  for (const std::size_t length : value) shown.push_back(format_bytes(length));
  state_->add(name, "BYTES,...", std::move(help), fmt::format("{}", fmt::join(shown, ",")), set);
}

void command_line::flag(const std::string& name, bool& value, std::string help) {
  state_->add(name, "", std::move(help), "", [&value](const std::string&) { value = true; });
}

void command_line::positional(std::string name, std::string& value, std::string help, bool optional,
                              std::vector<std::string_view> words) {
  positional_argument made;
  made.name = std::move(name);
  made.help = std::move(help);
  made.optional = optional;
  made.words.assign(words.begin(), words.end());
  made.default_text = value;
  made.value = &value;
  state_->positionals.push_back(std::move(made));
}

void command_line::rest(std::string name, std::vector<std::string>& values, std::string help) {
  state_->rest_shown.name = std::move(name);
  state_->rest_shown.help = std::move(help);
  state_->rest = &values;
}

void command_line::engine_options(settings& options) {
  state_->engine = &options;
  for (const tandem::option& o : option_table()) {
    const auto set = [&options, &o](const std::string& text) { options.set(o.name, text); };
    entry& made =
        state_->add(std::string(o.name), "VALUE", std::string(o.help), o.get(options), set);
    made.engine = &o;
    made.environment = o.environment;
    made.unit = o.unit;
    made.words = words_of_unit(o.unit);
    made.is_path = o.unit.starts_with("path");
  }
}

}  // namespace tandem::cli
