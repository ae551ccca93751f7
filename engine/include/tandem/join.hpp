#pragma once

#include <boost/asio/awaitable.hpp>
#include <exception>
#include <optional>
#include <vector>

namespace tandem {

namespace asio = boost::asio;

/// Runs all branches concurrently on the caller's executor and returns when all have ended.
///
/// @par Errors  The first failure cancels the others (terminal) and is thrown when the last branch
///   has ended, so none of their buffers is in use any more. Later failures are dropped.
/// @par Cancellation  Terminal: forwarded to each branch; completes when the last has ended.
/// @par Cost  One allocation for the join, one coroutine frame per branch.
asio::awaitable<void> when_all(std::vector<asio::awaitable<void>> branches);

/// Runs all branches concurrently and returns every outcome: null for a branch that succeeded. A
/// failure cancels no other branch; a cancellation of the caller is forwarded to each.
asio::awaitable<std::vector<std::exception_ptr>> gather(
    std::vector<asio::awaitable<void>> branches);

}  // namespace tandem
