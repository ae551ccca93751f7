#pragma once

#include <limits>
#include <string>

#include "support/rig_lanes.hpp"
#include "transports/rails/verbs/adapter.hpp"

namespace tandem::test {

/// An RDMA device of this host, closed with its last reference.
/// @param name  "rxe0 1 1": the device, its port and the GID index
std::shared_ptr<verbs::adapter> open_device(const asio::any_io_executor& executor,
                                            const std::string& name);

/// A lane's connection with so few slots that short messages fill it.
/// @param registered_bytes  announced messages from this length on are written in place
awaitable<std::unique_ptr<rails::lane_connection>> make_narrow_lane(
    std::shared_ptr<verbs::adapter> on, sealed::connection over,
    std::uint64_t registered_bytes = std::numeric_limits<std::uint64_t>::max());

}  // namespace tandem::test
