#include "cli/text.hpp"

#include <fmt/format.h>

#include <charconv>

namespace tandem::cli {

std::optional<int> parse_integer(std::string_view text, int min_value, int max_value) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failed] = std::from_chars(text.data(), end, number);
  const bool is_one =
      failed == std::errc() && rest == end && number >= min_value && number <= max_value;
  return is_one ? std::optional(number) : std::nullopt;
}

std::vector<std::string> split_commas(const std::string& text) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::string json_text(std::string_view text) {
  std::string result(1, '"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      result += c;
    }
  }
  return result + '"';
}

}  // namespace tandem::cli
