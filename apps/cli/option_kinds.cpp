#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cli/comma_parts.hpp"
#include "command_line_state.hpp"

namespace tandem::cli {
namespace {

template <class Number>
Number parse_number(const std::string& name, const std::string& text, Number least, Number most,
                    std::string_view kind) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(text.data(), end, number);
  if (failed != std::errc() || rest != end) {
    throw wrong(fmt::format("--{}={}: not {}", name, text, kind));
  }
  if (!(number >= least && number <= most)) {
    throw wrong(fmt::format("--{}={}: outside {} to {}", name, text, least, most));
  }
  return number;
}

std::size_t parse_bytes_of(const std::string& name, const std::string& text) {
  try {
    return parse_bytes(text);
  } catch (const error& e) {
    throw wrong(fmt::format("--{}={}", name, e.context().detail), e.context().advice);
  }
}

}  // namespace

void command_line::state::add(std::string name, std::string value_name, std::string help,
                              std::string standard, std::function<void(const std::string&)> set) {
  entry e;
  const std::size_t comma = name.find(',');
  e.name = name.substr(0, comma);
  if (comma != std::string::npos) e.letter = name.substr(comma + 1);
  e.value_name = std::move(value_name);
  e.help = std::move(help);
  e.standard = std::move(standard);
  e.set = std::move(set);
  entries.push_back(std::move(e));
}

void command_line::option(const std::string& name, std::string& value, std::string help) {
  const auto set = [&value](const std::string& text) { value = text; };
  state_->add(name, "TEXT", std::move(help), value, set);
}

void command_line::option(const std::string& name, int& value, int least, int most,
                          std::string help) {
  const auto set = [&value, least, most, bare = state_->bare_name(name)](const std::string& text) {
    value = parse_number(bare, text, least, most, "a whole number");
  };
  const std::string standard = value < least ? "" : std::to_string(value);
  state_->add(name, "N", std::move(help), standard, set);
}

void command_line::option(const std::string& name, double& value, double least, double most,
                          std::string help) {
  const auto set = [&value, least, most, bare = state_->bare_name(name)](const std::string& text) {
    value = parse_number(bare, text, least, most, "a number");
  };
  state_->add(name, "X", std::move(help), fmt::format("{}", value), set);
}

void command_line::choice(const std::string& name, std::string& value,
                          std::vector<std::string_view> words, std::string help) {
  const std::string shown = fmt::format("{}", fmt::join(words, "|"));
  const auto set = [&value, words, bare = state_->bare_name(name)](const std::string& text) {
    if (std::find(words.begin(), words.end(), text) == words.end()) {
      const std::string_view near = nearest(text, words);
      throw wrong(fmt::format("--{}={}: not one of {}", bare, text, fmt::join(words, ", ")),
                  near.empty() ? "" : fmt::format("did you mean {}?", near));
    }
    value = text;
  };
  state_->add(name, shown, std::move(help), value, set);
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
    for (const std::string& part : comma_parts(text)) lengths.push_back(parse_bytes_of(bare, part));
    value = std::move(lengths);
  };
  std::vector<std::string> shown;
  for (const std::size_t length : value) shown.push_back(format_bytes(length));
  state_->add(name, "BYTES,...", std::move(help), fmt::format("{}", fmt::join(shown, ",")), set);
}

void command_line::flag(const std::string& name, bool& value, std::string help) {
  state_->add(name, "", std::move(help), "", [&value](const std::string&) { value = true; });
}

void command_line::positional(std::string name, std::string& value, std::string help,
                              bool optional) {
  state_->positionals.push_back({std::move(name), &value, std::move(help), optional});
}

void command_line::rest(std::string name, std::vector<std::string>& values, std::string help) {
  state_->rest_name = std::move(name);
  state_->rest_help = std::move(help);
  state_->rest = &values;
}

void command_line::engine_options(settings& options) {
  state_->engine = &options;
  for (const tandem::option& o : option_table()) {
    const auto set = [&options, &o](const std::string& text) { options.set(o.name, text); };
    state_->add(std::string(o.name), "VALUE", std::string(o.help), o.get(options), set);
    state_->entries.back().engine = &o;
  }
}

}  // namespace tandem::cli
