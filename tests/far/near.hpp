#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>

#include "support/channel_case.hpp"
#include "far/lanes.hpp"

namespace tandem::test::far {

/// A channel whose other end is in another process, perhaps on another machine: the first end is
/// here, the second stands for the one there and has all that it is asked done by `far::serve`.
/// @param control  where that process listens
awaitable<channel_pair> connect(asio::ip::tcp::endpoint control, lanes_of_pair by,
                                settings options);

}  // namespace tandem::test::far
