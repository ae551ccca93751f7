#pragma once

#include <boost/asio/awaitable.hpp>
#include <span>
#include <string>
#include <string_view>
#include <tandem/communicator.hpp>

namespace tandem {

/// Whether ranks on these hosts (listed by rank) try to share a `board`: they are all on one host,
/// not too many, and the fabric, or its transport within a host, is a shared-memory one. Computed
/// from facts that all ranks have exchanged, so either all ranks try or none does.
bool may_share_board(std::string_view channel, std::span<const std::string> hosts) noexcept;

namespace detail {

/// Creates a board shared by the ranks of a group, if all of them can map it. Collective; returns
/// the same on all ranks, and connects all of them with each other.
/// @pre may_share_board; no call is in progress.
/// @par Cost  Three small all_gathers. @par Errors  Those of collectives and of connecting.
asio::awaitable<bool> share_board(communicator& among);

}  // namespace detail
}  // namespace tandem
