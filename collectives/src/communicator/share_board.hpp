#pragma once

#include <boost/asio/awaitable.hpp>
#include <tandem/communicator.hpp>
#include <tandem/detail/board_sharing.hpp>

namespace tandem::detail {

/// Creates a board shared by the ranks of a group, if all of them can map it. Collective; returns
/// the same on all ranks, and connects all of them with each other.
/// @pre may_share_board; no call is in progress.
/// @par Cost  Three small all_gathers. @par Errors  Those of collectives and of connecting.
asio::awaitable<bool> share_board(communicator& among);

}  // namespace tandem::detail
