#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tandem/channel.hpp>
#include <tandem/settings.hpp>

namespace tandem::protocol {

/// The negotiated limits: the smaller of the values that the two ends offer.
struct limits {
  std::uint32_t eager_bytes = 64 * 1024;
  std::uint32_t chunk_bytes = 1024 * 1024;
  std::uint32_t credit_bytes =
      4 * 1024 * 1024;  ///< eager bytes that may wait unconsumed, all flows
  std::uint32_t max_flows = 4096;
  /// Chunks are not made shorter than this to use several lanes. Constant, not negotiated.
  std::uint32_t piece_bytes = 64 * 1024;

  /// The share of the credits that one flow may use, so that a flow that is not received leaves
  /// some to the others.
  std::uint32_t flow_credit_bytes() const noexcept { return credit_bytes / 4; }
};

/// Announced and not yet accepted messages of one flow: bounds the receiver's state.
constexpr std::uint32_t max_announced_per_flow = 16;
/// Cost of an eager message in addition to its payload, so that empty ones are bounded, too.
constexpr std::uint32_t eager_overhead_bytes = 64;
/// Slots are 16 bits of a message id: 65536 / max_announced_per_flow.
constexpr std::uint32_t max_supported_flows = 4096;
constexpr std::uint64_t max_message_bytes = std::uint64_t{1} << 40;
/// Chunks of a message are counted in 32 bits. Also the minimum of `settings::chunk_bytes`.
constexpr std::uint32_t min_chunk_bytes = 1024;
static_assert(max_message_bytes / min_chunk_bytes <= std::numeric_limits<std::uint32_t>::max());

/// Credits are totals modulo 2^32, so less than half of that may be open.
constexpr std::uint32_t max_credit_bytes = std::uint32_t{1} << 31;

inline limits offered(const settings& s) noexcept {
  const auto at_most = [](std::size_t value, std::uint32_t max) {
    return static_cast<std::uint32_t>(std::min<std::size_t>(value, max));
  };
  return {at_most(s.eager_bytes, max_credit_bytes / 4),
          std::max(at_most(s.chunk_bytes, max_credit_bytes), min_chunk_bytes),
          at_most(s.credit_bytes, max_credit_bytes), at_most(s.max_flows, max_supported_flows)};
}

inline limits agreed(const limits& a, const limits& b) noexcept {
  return {std::min(a.eager_bytes, b.eager_bytes), std::min(a.chunk_bytes, b.chunk_bytes),
          std::min(a.credit_bytes, b.credit_bytes), std::min(a.max_flows, b.max_flows)};
}

/// The chunk length of a message: two chunks for each lane that could carry it, so that a faster
/// lane may take more, in whole pieces; a message of up to two pieces is not divided for lanes.
inline std::uint32_t chunk_bytes_for(const limits& l, std::uint64_t message_bytes,
                                     std::size_t lanes) noexcept {
  const std::uint64_t piece = l.piece_bytes;
  if (lanes <= 1 || message_bytes <= 2 * piece) return l.chunk_bytes;
  const std::uint64_t pieces = (message_bytes + 2 * lanes * piece - 1) / (2 * lanes * piece);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(pieces * piece, l.chunk_bytes));
}

inline channel_limits as_channel_limits(const limits& l) {
  return {{memory_kind::host},
          static_cast<std::size_t>(max_message_bytes),
          l.eager_bytes,
          l.chunk_bytes,
          l.max_flows};
}

}  // namespace tandem::protocol
