// Numbers in options and files: what is no number, and what is one that is too large.
#pragma once

#include <charconv>
#include <limits>
#include <string_view>
#include <system_error>

namespace tandem::detail {

enum class number_kind : unsigned char { valid, not_a_number, too_large };

/// Reads a number at the start of `text`, and removes it there. Of a number that the type cannot
/// hold, `value` is the greatest or, with a minus sign, the least.
template <class Number>
number_kind take_number(std::string_view& text, Number& value) {
  const std::string_view whole = text;
  const auto [rest, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  if (failed == std::errc()) return number_kind::valid;
  if (failed != std::errc::result_out_of_range) return number_kind::not_a_number;
  using limits = std::numeric_limits<Number>;
  value = whole.starts_with('-') ? limits::lowest() : limits::max();
  return number_kind::too_large;
}

/// The same for a text that is nothing but a number.
template <class Number>
number_kind read_number(std::string_view text, Number& value) {
  const number_kind found = take_number(text, value);
  return text.empty() ? found : number_kind::not_a_number;
}

}  // namespace tandem::detail
