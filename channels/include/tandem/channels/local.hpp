#pragma once

#include <memory>
#include <tandem/channel.hpp>
#include <tandem/fabric.hpp>
#include <tandem/settings.hpp>
#include <utility>
#include <vector>

/// Channels inside one process: the same protocol as over a network, carried out by copying memory.
namespace tandem::local {

/// Two connected ends, each with its own executor; they may run on different threads.
/// @par Cost One copy per message, two for a message that arrives before its receive is posted.
std::pair<std::unique_ptr<channel>, std::unique_ptr<channel>> make_pair(
    asio::any_io_executor first, asio::any_io_executor second, const settings& options = {});

/// As many ranks as executors, each rank's fabric connected to all others. A rank whose fabric is
/// destroyed without `close` is lost, and all others hear so.
std::vector<std::unique_ptr<fabric>> make_fabrics(std::vector<asio::any_io_executor> executors,
                                                  const settings& options = {});

}  // namespace tandem::local
