#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace tandem::cli {

/// Parses the whole text as an integer within these bounds.
inline std::optional<int> parse_integer(std::string_view text, int min_value, int max_value) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(text.data(), end, number);
  const bool is_one =
      failed == std::errc() && rest == end && number >= min_value && number <= max_value;
  return is_one ? std::optional(number) : std::nullopt;
}

}  // namespace tandem::cli
