#pragma once

#include <string>
#include <vector>

namespace tandem::cli {

/// "a,,b": "a", "" and "b"; of nothing one that is empty.
inline std::vector<std::string> comma_parts(const std::string& text) {
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
