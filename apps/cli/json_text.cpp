#include "cli/json_text.hpp"

#include <fmt/format.h>

namespace tandem::cli {

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
