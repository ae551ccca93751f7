#include "plan/pins.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <tandem/error.hpp>
#include <utility>

namespace tandem::detail {
namespace {

constexpr std::string_view syntax = "write OPERATION[:FROM-BELOW]=ALGORITHM[/CHUNK]";
constexpr std::size_t min_chunk_bytes = 1024;

[[noreturn]] void refuse(std::string_view pin, std::string_view why, std::string advice) {
  throw error(errc::bad_option, fmt::format("plan {}: {}", pin.substr(0, 80), why),
              std::move(advice));
}

collective read_collective(std::string_view pin, std::string_view word) {
  std::vector<std::string_view> choices;
  for (std::size_t i = 0; i < collective_count; ++i) {
    const auto what = static_cast<collective>(i);
    if (name(what) == word) return what;
    choices.push_back(name(what));
  }
  refuse(pin, fmt::format("{}: no such operation", word), suggestion_for(word, choices));
}

algorithm read_algorithm(std::string_view pin, std::string_view word, collective what) {
  if (const auto found = find_algorithm(what, word)) return *found;
  refuse(pin, fmt::format("{}: no algorithm of {}", word, name(what)),
         suggestion_for(word, algorithm_names(what)));
}

std::size_t read_bytes(std::string_view pin, std::string_view text) {
  try {
    return parse_bytes(text);
  } catch (const error& e) {
    refuse(pin, e.context().detail, e.context().advice);
  }
}

void read_range(pin& into, std::string_view text, std::string_view range) {
  const std::size_t dash = range.find('-');
  if (dash == std::string_view::npos) {
    refuse(text, fmt::format("{}: not a range of lengths", range),
           fmt::format("write {0}- for lengths from {0} on, -{0} for shorter ones", range));
  }
  const std::string_view from = range.substr(0, dash), below = range.substr(dash + 1);
  if (!from.empty()) into.from_bytes = read_bytes(text, from);
  if (!below.empty()) into.below_bytes = read_bytes(text, below);
  if (into.from_bytes >= into.below_bytes) {
    refuse(text, "the range is empty", "give the smaller length first");
  }
}

pin read_pin(std::string_view text) {
  const std::size_t equal = text.find('=');
  if (equal == std::string_view::npos) refuse(text, "not a pin", std::string(syntax));
  const std::string_view left = text.substr(0, equal), right = text.substr(equal + 1);
  const std::size_t colon = std::min(left.find(':'), left.size());
  const std::size_t slash = std::min(right.find('/'), right.size());

  pin result{.what = read_collective(text, left.substr(0, colon))};
  if (colon < left.size()) read_range(result, text, left.substr(colon + 1));
  result.how = read_algorithm(text, right.substr(0, slash), result.what);
  if (slash < right.size()) {
    result.chunk_bytes = read_bytes(text, right.substr(slash + 1));
    if (result.chunk_bytes < min_chunk_bytes) {
      refuse(text, "the chunk is less than 1K", "give 1K or more");
    }
  } else if (result.how == algorithm::automatic) {
    refuse(text, "pins nothing", "name an algorithm, or a chunk: automatic/128K");
  }
  return result;
}

/// Splits the rule that covers `bytes`, so that one begins there.
void cut(std::vector<plan_rule>& rules, collective what, std::size_t bytes) {
  auto before = rules.end();
  for (auto rule = rules.begin(); rule != rules.end(); ++rule) {
    if (rule->what == what && rule->from_bytes <= bytes) before = rule;
  }
  if (before == rules.end() || before->from_bytes == bytes) return;
  plan_rule rest = *before;
  rest.from_bytes = bytes;
  rules.insert(before + 1, std::move(rest));
}

}  // namespace

std::vector<pin> parse_pins(std::string_view text) {
  std::vector<pin> result;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    result.push_back(read_pin(text.substr(0, comma)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return result;
}

std::vector<plan_rule> with_pins(std::vector<plan_rule> rules, const std::vector<pin>& pins) {
  for (const pin& one : pins) {
    cut(rules, one.what, one.from_bytes);
    if (one.below_bytes != static_cast<std::size_t>(-1)) cut(rules, one.what, one.below_bytes);
    for (plan_rule& rule : rules) {
      const bool meant = rule.what == one.what && rule.from_bytes >= one.from_bytes &&
                         rule.from_bytes < one.below_bytes;
      if (!meant) continue;
      if (one.how != algorithm::automatic) rule.how = one.how;
      if (one.chunk_bytes != 0) rule.chunk_bytes = one.chunk_bytes;
      rule.why = one.how == algorithm::automatic ? "chunk pinned; " + rule.why : "pinned";
    }
  }
  const auto same = [](const plan_rule& a, const plan_rule& b) {
    return a.what == b.what && a.how == b.how && a.chunk_bytes == b.chunk_bytes && a.why == b.why;
  };
  rules.erase(std::unique(rules.begin(), rules.end(), same), rules.end());
  return rules;
}

}  // namespace tandem::detail
