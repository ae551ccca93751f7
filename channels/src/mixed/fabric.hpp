#pragma once

#include <memory>
#include <tandem/channels/mixed.hpp>

#include "tcp/fabric.hpp"

namespace tandem::mixed {

/// Makes the mesh for peers on the same host.
using near_maker = std::shared_ptr<tcp::mesh> (*)(std::shared_ptr<store>, settings,
                                                  asio::any_io_executor);

/// As the public one; `near` replaces shared memory.
asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options, near_maker near);

}  // namespace tandem::mixed
