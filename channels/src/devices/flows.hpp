#pragma once

#include <cstddef>
#include <limits>
#include <tandem/channel.hpp>

namespace tandem::devices {

// The flows of the inner channel that a link uses.
constexpr flow_id frame_flow = 0;
constexpr flow_id payload_flow = 1;

/// The longest payload that is copied into the message of its frame: cheaper than a second message.
constexpr std::size_t max_inline_bytes = 4096;

}  // namespace tandem::devices
