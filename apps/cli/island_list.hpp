#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::cli {

/// An island: ranks on machines of one vendor. Ranks are numbered from 0 in the order of islands.
struct island {
  std::string name;
  int ranks = 0;
};

/// "nvidia:2,amd:2" as islands. @par Errors `errc::bad_option`.
std::vector<island> parse_islands(std::string_view text);

}  // namespace tandem::cli
