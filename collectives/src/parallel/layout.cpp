#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <tandem/error.hpp>
#include <tandem/parallel.hpp>
#include <tandem/settings.hpp>
#include <utility>

namespace tandem {
namespace {

constexpr int max_ranks = 65536;
constexpr std::size_t max_name_length = 32;
constexpr std::string_view layout_syntax =
    "write NAME=SIZE, separated by commas, outermost first: pipeline=2,data=2,tensor=2";
constexpr std::string_view usual_names[] = {"tensor", "data", "pipeline", "expert"};

[[noreturn]] void refuse_layout(std::string_view part, std::string_view why,
                                std::string_view advice) {
  throw error(errc::bad_option, fmt::format("layout {}: {}", part.substr(0, 80), why),
              std::string(advice));
}

bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_name(std::string_view word) noexcept {
  const auto fits = [](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !word.empty() && word.size() <= max_name_length && is_letter(word[0]) &&
         std::ranges::all_of(word, fits);
}

parallel_layout::dimension read_dimension(std::string_view part) {
  const std::size_t equal = part.find('=');
  const std::string_view name = part.substr(0, equal);
  parallel_layout::check_name(name);
  if (equal == std::string_view::npos) refuse_layout(part, "missing size", layout_syntax);
  const std::string_view text = part.substr(equal + 1);
  int size = 0;
  const auto [rest, failed] = std::from_chars(text.data(), text.data() + text.size(), size);
  const bool is_number = failed == std::errc() && rest == text.data() + text.size();
  if (!is_number || size < 1 || size > max_ranks) {
    refuse_layout(part, fmt::format("\"{}\" is not a valid size", text),
                  fmt::format("give a number from 1 to {}", max_ranks));
  }
  return {std::string(name), size};
}

}  // namespace

std::optional<std::size_t> rank_groups::find(int rank) const noexcept {
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (std::ranges::find(members[i], rank) != members[i].end()) return i;
  }
  return std::nullopt;
}

void parallel_layout::check_name(std::string_view name) {
  if (is_name(name)) return;
  const std::string_view near = nearest(name, usual_names);
  throw error(
      errc::bad_option, fmt::format("layout: \"{}\" is not a valid name", name.substr(0, 80)),
      near.empty() ? fmt::format("use up to {} letters, digits, _ and -, starting with a letter",
                                 max_name_length)
                   : fmt::format("did you mean {}?", near));
}

parallel_layout parallel_layout::parse(std::string_view text) {
  parallel_layout result;
  std::int64_t ranks = 1;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    dimension one = read_dimension(part);
    if (std::ranges::find(result.dimensions_, one.name, &dimension::name) !=
        result.dimensions_.end()) {
      refuse_layout(part, fmt::format("{} is given twice", one.name), "give each name once");
    }
    ranks *= one.size;
    if (ranks > max_ranks) {
      refuse_layout(part, fmt::format("more than {} ranks in total", max_ranks),
                    "choose smaller sizes");
    }
    result.dimensions_.push_back(std::move(one));
    if (comma == std::string_view::npos) return result;
    text.remove_prefix(comma + 1);
  }
}

int parallel_layout::ranks() const noexcept {
  int product = 1;
  for (const dimension& each : dimensions_) product *= each.size;
  return product;
}

rank_groups parallel_layout::groups(std::size_t of) const {
  const dimension& along = dimensions_[of];
  int step = 1;
  for (std::size_t i = of + 1; i < dimensions_.size(); ++i) step *= dimensions_[i].size;
  rank_groups result{along.name, {}};
  for (int first = 0; first < ranks(); ++first) {
    if (first / step % along.size != 0) continue;
    std::vector<int>& members = result.members.emplace_back();
    for (int i = 0; i < along.size; ++i) members.push_back(first + i * step);
  }
  return result;
}

std::string parallel_layout::text() const {
  std::string result;
  for (const dimension& each : dimensions_) {
    result += fmt::format("{}{}={}", result.empty() ? "" : ",", each.name, each.size);
  }
  return result;
}

void parallel_layout::check(int wanted) const {
  const int product = ranks();
  if (product == wanted) return;
  std::vector<std::string> fitting;
  for (const dimension& each : dimensions_) {
    const int others = product / each.size;
    if (wanted >= others && wanted % others == 0) {
      fitting.push_back(fmt::format("{}={}", each.name, wanted / others));
    }
  }
  throw error(errc::bad_option,
              fmt::format("layout {}: {} rank{}, and the job has {}", text(), product,
                          product == 1 ? "" : "s", wanted),
              fitting.empty() ? fmt::format("choose sizes whose product is {}", wanted)
                              : fmt::format("use {}", fmt::join(fitting, " or ")));
}

std::string ranks_text(std::span<const int> ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", ranks[i]);
    if (last > i) text += fmt::format("-{}", ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace tandem
