#pragma once

#include <boost/asio/ip/tcp.hpp>

#include "far/lanes.hpp"

namespace tandem::test::far {

/// Has the far ends of those that connect to the door: a test each, one after the other or at once.
/// @param by  its devices; its `there` says no more than how many lanes there are
awaitable<void> serve(asio::ip::tcp::acceptor& door, lanes_of_pair by);

}  // namespace tandem::test::far
