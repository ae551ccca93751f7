#pragma once

#include <cstddef>
#include <limits>
#include <tandem/operation.hpp>

namespace tandem::devices {

// Flows of the inner channel.
constexpr flow_id frame_flow = 0;
constexpr flow_id payload_flow = 1;

/// The longest payload that is copied into the message of its frame: a message more costs more.
constexpr std::size_t most_inside_bytes = 4096;

}  // namespace tandem::devices
