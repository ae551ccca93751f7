#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>

#include "far/lanes.hpp"
#include "support/channel_case.hpp"

namespace tandem::test::far {

/// A channel whose other end is in another process, perhaps on another host: the first end is
/// local, the second a proxy whose operations are carried out there by `far::serve`.
/// @param control  where that process listens
awaitable<channel_pair> connect(asio::ip::tcp::endpoint control, lanes_of_pair by,
                                settings options);

}  // namespace tandem::test::far
