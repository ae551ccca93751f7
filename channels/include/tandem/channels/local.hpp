#pragma once

#include <memory>
#include <tandem/channel.hpp>
#include <tandem/fabric.hpp>
#include <tandem/settings.hpp>
#include <utility>
#include <vector>

/// Channels inside one process: the same protocol as over a network, by copies in memory.
namespace tandem::local {

/// Two connected channels, each on its own executor; the executors may run on different threads.
/// @par Cost One copy per message, two for a message that arrives before its receive is posted.
std::pair<std::unique_ptr<channel>, std::unique_ptr<channel>> make_pair(
    asio::any_io_executor first, asio::any_io_executor second, const settings& options = {});

/// One fabric for each executor, all connected with each other. A rank whose fabric is destroyed
/// without `close` counts as lost, and the channels of all other ranks fail.
std::vector<std::unique_ptr<fabric>> make_fabrics(std::vector<asio::any_io_executor> executors,
                                                  const settings& options = {});

}  // namespace tandem::local
