#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace tandem::cli {

/// Parses the whole text as an integer within these bounds.
inline std::optional<int> whole_number(std::string_view text, int least, int most) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(text.data(), end, number);
  const bool is_one = failed == std::errc() && rest == end && number >= least && number <= most;
  return is_one ? std::optional(number) : std::nullopt;
}

}  // namespace tandem::cli
