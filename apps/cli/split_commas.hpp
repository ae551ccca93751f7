#pragma once

#include <string>
#include <vector>

namespace tandem::cli {

/// "a,,b" gives "a", "" and "b"; an empty text gives one empty part.
inline std::vector<std::string> split_commas(const std::string& text) {
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

}  // namespace tandem::cli
