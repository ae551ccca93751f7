#pragma once

#include <boost/asio/awaitable.hpp>
#include <span>
#include <string>
#include <tandem/collectives/communicator.hpp>

namespace tandem::detail {

/// Whether ranks on these hosts, by rank, may share a board over a fabric of that kind: what all of
/// them know, so that all of them try or none.
bool may_share_board(std::string_view fabric_kind, std::span<const std::string> hosts) noexcept;

/// Lets the ranks of a group share a board, if every one of them can: all call it, and true is the
/// answer of all. They are connected with each other then. @pre may_share_board; no call under way.
/// @par Cost  Three small all_gathers. @par Errors  As the collectives, and of connecting.
asio::awaitable<bool> share_board(communicator& among);

}  // namespace tandem::detail
