#pragma once

#include <limits>
#include <string>

#include "support/rig_lanes.hpp"
#include "verbs/adapter.hpp"

namespace tandem::test {

/// An RDMA device of this machine, closed by whoever has it last.
/// @param name  "rxe0 1 1": the device, its port and the GID
std::shared_ptr<verbs::adapter> open_device(const asio::any_io_executor& executor,
                                            const std::string& name);

/// A wire with so little room that short messages fill it.
/// @param registered_bytes  from here on what is announced is written in place
awaitable<std::unique_ptr<rails::lane_connection>> narrow_wire(
    std::shared_ptr<verbs::adapter> on, sealed::connection over,
    std::uint64_t registered_bytes = std::numeric_limits<std::uint64_t>::max());

}  // namespace tandem::test
