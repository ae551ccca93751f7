#include <fmt/format.h>

#include <algorithm>
#include <tandem/detail/number_text.hpp>
#include <tandem/error.hpp>
#include <tandem/settings.hpp>
#include <utility>
#include <vector>

#include "option_error.hpp"

namespace tandem {
namespace {

using detail::bad;
using detail::giga;
using detail::kilo;
using detail::mega;

/// Optimal string alignment: insertions, deletions, substitutions and transpositions of neighbours
/// cost 1 each.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::size_t parse_bytes(std::string_view text) {
  std::size_t number = 0;
  std::string_view suffix = text;
  const detail::number_kind kind = detail::take_number(suffix, number);
  std::size_t unit = 1;
  if (suffix == "K" || suffix == "k") unit = kilo;
  if (suffix == "M" || suffix == "m") unit = mega;
  if (suffix == "G" || suffix == "g") unit = giga;
  if (kind == detail::number_kind::not_a_number || (unit == 1 && !suffix.empty())) {
    throw bad(text, "not a number of bytes",
              "write a number, or one with K, M or G (powers of 1024)");
  }
  if (kind == detail::number_kind::too_large || number > static_cast<std::size_t>(-1) / unit)
    throw bad(text, "exceeds the address space");
  return number * unit;
}

std::string format_bytes(std::size_t bytes) {
  if (bytes != 0 && bytes % giga == 0) return fmt::format("{}G", bytes / giga);
  if (bytes != 0 && bytes % mega == 0) return fmt::format("{}M", bytes / mega);
  if (bytes != 0 && bytes % kilo == 0) return fmt::format("{}K", bytes / kilo);
  return std::to_string(bytes);
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  // Up to a third of the characters wrong counts as a typing error.
  std::size_t best = (word.size() + 2) / 3 + 1;
  std::string_view found;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::string suggestion_for(std::string_view word, std::span<const std::string_view> candidates) {
  const std::string_view near = nearest(word, candidates);
  return near.empty() ? fmt::format("choose {}", fmt::join(candidates, ", "))
                      : fmt::format("did you mean {}?", near);
}

}  // namespace tandem
