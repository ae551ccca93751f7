#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tandem {

/// Whether ranks on these hosts (listed by rank) try to share a `board`: they are all on one host,
/// not too many, and the fabric, or its transport within a host, is a shared-memory one. Computed
/// from facts that all ranks have exchanged, so either all ranks try or none does.
bool may_share_board(std::string_view channel, std::span<const std::string> hosts) noexcept;

}  // namespace tandem
