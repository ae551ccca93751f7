#pragma once

#include <gtest/gtest.h>

#include <string_view>

namespace tandem::test {

inline testing::AssertionResult contains_text(std::string_view text, std::string_view words) {
  if (text.find(words) != std::string_view::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << words << "' is not in: " << text;
}

/// The number of occurrences, overlapping ones included.
inline int count(std::string_view text, std::string_view word) {
  int n = 0;
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++n;
  return n;
}

}  // namespace tandem::test
