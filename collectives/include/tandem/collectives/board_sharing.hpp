#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tandem {

/// Whether ranks on these hosts, by rank, try to share a `board` where their fabric, or what it has
/// within a host, is of that kind: all on one host, not too many, and it shares memory. From what
/// all of them know, so that all of them try or none.
bool may_share_board(std::string_view channel, std::span<const std::string> hosts) noexcept;

}  // namespace tandem
