#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <tandem/memory.hpp>

#include "group_of_ranks.hpp"

namespace tandem::c {

/// Receives the first message with that tag of any other rank; sets `bytes` and `source` of `op`.
///
/// A receive is posted for each rank. When one is complete, the others are cancelled, which has no
/// effect on messages: those that arrive nevertheless are kept for the next receives.
/// @par Cost  For each other rank a buffer as long as the view.
/// @par Errors thrown: `errc::unsupported_memory` for device memory; those of a receive.
asio::awaitable<void> receive_from_any(std::shared_ptr<group_of_ranks> among, mutable_view into,
                                       int tag, operation_state& op);

/// Receives from one rank, also a message that `receive_from_any` has kept.
asio::awaitable<void> receive_from(std::shared_ptr<group_of_ranks> among, mutable_view into,
                                   int from, int tag, operation_state& op);

}  // namespace tandem::c
