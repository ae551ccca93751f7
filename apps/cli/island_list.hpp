#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::cli {

/// Ranks that stand together: one vendor's machines. Numbered from 0 in the order of the islands.
struct island {
  std::string name;
  int ranks = 0;
};

/// "nvidia:2,amd:2" as islands. @par Errors `errc::bad_option`.
std::vector<island> parse_islands(std::string_view text);

}  // namespace tandem::cli
