#pragma once

#include <boost/asio/ip/tcp.hpp>

#include "far/lanes.hpp"

namespace tandem::test::far {

/// Serves the far ends for tests that connect to the acceptor: one channel for each, one after the
/// other or concurrently.
/// @param by  its devices; of its `there` only the number of lanes is used
awaitable<void> serve(asio::ip::tcp::acceptor& acceptor, lanes_of_pair by);

}  // namespace tandem::test::far
