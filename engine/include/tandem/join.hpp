#pragma once

#include <boost/asio/awaitable.hpp>
#include <exception>
#include <optional>
#include <vector>

namespace tandem {

namespace asio = boost::asio;

/// Runs all of them at once, on the caller's executor, and returns when all are over.
///
/// @par Errors  The first failure cancels the others (terminal) and is thrown when the last has
/// ended, so
///   that no buffer of theirs is in use any more. Failures after the first are dropped.
/// @par Cancellation  Terminal: passed on to each; completes when the last has ended.
/// @par Cost  One allocation for the join, one coroutine frame per branch.
asio::awaitable<void> when_all(std::vector<asio::awaitable<void>> branches);

/// Runs all of them at once and keeps every outcome: null where a branch succeeded. Cancels nobody
/// by itself; a cancellation from outside is passed on to each.
asio::awaitable<std::vector<std::exception_ptr>> gather(
    std::vector<asio::awaitable<void>> branches);

}  // namespace tandem
