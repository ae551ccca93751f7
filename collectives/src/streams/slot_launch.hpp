#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "streams/slot_words.hpp"

namespace tandem::detail {

/// The pieces that each block has carried in one direction, when all that was launched is complete.
using slot_counts = std::array<std::uint32_t, slot_blocks>;

/// One end of the messages between two ranks: the memory of both, as kernels of this rank access
/// it.
struct slot_end {
  slot_memory* own = nullptr;
  slot_memory* other = nullptr;
  slot_progress* progress = nullptr;
  slot_report* report = nullptr;
  slot_counts sent{}, received{};

  slot_counts& counts(bool is_send) noexcept { return is_send ? sent : received; }
};

/// A message that is to be launched.
struct slot_request {
  slot_end* between = nullptr;
  bool is_send = false;
  char* data = nullptr;
  slot_head head = {};
};

/// Launches the kernels that carry these messages, one after the other: all messages as one if they
/// fit, so that none waits for another; else as many of each direction at a time, the sends first
/// where one kernel cannot have all directions. Then the first messages that are not complete are
/// under way on both ranks, however many the other's kernels have. Counts them. Empty ones need no
/// kernel.
/// @param launch  called for each
void launch_messages(std::span<const slot_request> messages,
                     const std::function<void(slot_work& work)>& launch);

/// The same, if it is of few messages. @pre work.directions > 0
std::optional<short_slot_work> as_short(const slot_work& work);

/// The directions of a kernel that receives a message, and sends another of the same length if it
/// `sends`, by `blocks_for` its bytes. Counts them; the memory is the caller's to add.
/// @pre head.bytes > 0
slot_exchange plan_exchange(slot_end& between, const slot_head& head, bool sends);

}  // namespace tandem::detail
