#pragma once

#include <memory>
#include <tandem/channels.hpp>

#include "tcp/fabric.hpp"

namespace tandem::mixed {

/// Makes the mesh for peers on the same host.
using intra_host_maker = std::shared_ptr<tcp::mesh> (*)(std::shared_ptr<store>, settings,
                                                        asio::any_io_executor);

/// As the public one; `intra_host` replaces shared memory.
asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options, intra_host_maker intra_host);

}  // namespace tandem::mixed
