#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <string>
#include <tandem/error.hpp>

namespace tandem {

namespace asio = boost::asio;

/// Runs `work` and cancels it (terminal) when `limit` has passed; then throws `errc::timed_out`
/// with `phase` and `advice` in its context. Completes only when `work` has ended and accesses
/// nothing any more, which may be after the deadline.
asio::awaitable<void> with_deadline(std::chrono::steady_clock::duration limit,
                                    asio::awaitable<void> work, std::string phase,
                                    std::string advice = {});

}  // namespace tandem
