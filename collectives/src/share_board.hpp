#pragma once

#include <boost/asio/awaitable.hpp>
#include <tandem/collectives/board_sharing.hpp>
#include <tandem/collectives/communicator.hpp>

namespace tandem::detail {

/// Lets the ranks of a group share a board, if every one of them can: all call it, and true is the
/// answer of all. They are connected with each other then. @pre may_share_board; no call under way.
/// @par Cost  Three small all_gathers. @par Errors  As the collectives, and of connecting.
asio::awaitable<bool> share_board(communicator& among);

}  // namespace tandem::detail
