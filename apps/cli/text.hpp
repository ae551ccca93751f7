#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::cli {

/// Parses the whole text as an integer within these bounds.
std::optional<int> parse_integer(std::string_view text, int min_value, int max_value);

/// "a,,b" gives "a", "" and "b"; an empty text gives one empty part.
std::vector<std::string> split_commas(const std::string& text);

/// An island: ranks on machines of one vendor. Ranks are numbered from 0 in the order of islands.
struct island {
  std::string name;
  int ranks = 0;
};

/// "nvidia:2,amd:2" as islands. @par Errors `errc::bad_option`.
std::vector<island> parse_islands(std::string_view text);

/// `text` as a JSON string, quoted and escaped. Bytes above 127 are copied: UTF-8 in, UTF-8 out.
std::string json_text(std::string_view text);

}  // namespace tandem::cli
