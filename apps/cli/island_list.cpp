
#include <fmt/format.h>

#include <tandem/error.hpp>

#include "cli/text.hpp"

namespace tandem::cli {

std::vector<island> parse_islands(std::string_view text) {
  constexpr int max_ranks = 65536;
  std::vector<island> result;
  for (const std::string& piece : split_commas(std::string(text))) {
    const std::size_t colon = piece.find(':');
    const std::string_view count =
        colon == std::string::npos ? std::string_view() : std::string_view(piece).substr(colon + 1);
    const std::optional<int> ranks = parse_integer(count, 1, max_ranks);
    if (!ranks || colon == 0) {
      throw error(errc::bad_option,
                  fmt::format("--islands {}: \"{}\" is not NAME:RANKS", text, piece),
                  "for example nvidia:2,amd:2");
    }
    result.push_back({piece.substr(0, colon), *ranks});
  }
  return result;
}

}  // namespace tandem::cli
