#pragma once

#include <memory>
#include <tandem/channels.hpp>
#include <tandem/store.hpp>
#include <vector>

#include "fabric/fabric_base.hpp"

namespace tandem::mixed {

/// Makes the mesh for peers on the same host.
using intra_host_maker = std::shared_ptr<transport::fabric_base> (*)(std::shared_ptr<store>,
                                                                     settings,
                                                                     asio::any_io_executor);

/// As the public one; `intra_host` replaces shared memory.
asio::awaitable<std::unique_ptr<fabric>> make_fabric(std::shared_ptr<store> meeting,
                                                     settings options, intra_host_maker intra_host);

/// Splits a rank's one store into parts for several users, each of which has a store of its own.
///
/// Requests are forwarded to `underlying`. A loss is reported to the handler of every part,
/// whenever the handler was set; a handler may destroy any part. A report of one part reaches the
/// others at once. `leave` of a part ends its notifications; the rank itself leaves when all parts
/// have left, and is lost where `underlying` is destroyed before. Uses the loss handler of
/// `underlying` itself.
std::vector<std::shared_ptr<store>> split_store(const std::shared_ptr<store>& underlying,
                                                const asio::any_io_executor& executor,
                                                std::size_t parts);

}  // namespace tandem::mixed
