// What the kernels of slot_kernel.hpp and staged_kernel.hpp share with their callers: also a part
// of the kernel source that is compiled at run time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::detail {

/// Thread blocks that carry one message, at most; each has slots and counters of its own.
constexpr unsigned slot_blocks = 32;
/// Slots of a block, which it fills in turn: what may be on its way, so that a block fills some
/// while the receiver's empties others.
constexpr unsigned slots_per_block = 16;
constexpr unsigned slot_bytes = 32 * 1024;
/// Of a message that is carried by more than one block.
constexpr unsigned min_bytes_per_block = 8 * 1024;
/// Threads of a block, of which the last do not copy: the first of these waits for the other rank
/// and notifies it, while the rest copies. As many as an AMD wave has.
constexpr unsigned slot_threads = 512 + 64, control_threads = 64;
constexpr unsigned copy_unit_bytes = 16;
/// Of a block of which one half sends and the other combines what arrives, at most, where half a
/// block can wait for itself (NVIDIA's named barriers): multiplications beside it keep twice as
/// many multiprocessors (bench/results/gpu_occupancy-2026-12-01T0345Z.jsonl).
constexpr unsigned max_paired_threads = 1024;

/// The blocks that carry a message of so many bytes.
constexpr unsigned blocks_for(std::uint64_t bytes) {
  const std::uint64_t wanted = (bytes + min_bytes_per_block - 1) / min_bytes_per_block;
  return wanted < slot_blocks ? static_cast<unsigned>(wanted) : slot_blocks;
}

/// The part of a message that a block carries, slot by slot.
struct block_part {
  std::uint64_t first = 0, bytes = 0;

  constexpr unsigned pieces() const {
    return static_cast<unsigned>((bytes + slot_bytes - 1) / slot_bytes);
  }
};

constexpr block_part part_of(std::uint64_t bytes, unsigned block) {
  const unsigned blocks = blocks_for(bytes);
  if (block >= blocks) return {};
  const std::uint64_t units = (bytes + copy_unit_bytes - 1) / copy_unit_bytes;
  const std::uint64_t most = (units + blocks - 1) / blocks * copy_unit_bytes;
  const std::uint64_t first = most * block;
  if (first >= bytes) return {};
  return {first, bytes - first < most ? bytes - first : most};
}

/// For a message of so many bytes: where a block has little to copy, fewer begin sooner.
constexpr unsigned paired_threads_for(std::uint64_t bytes) {
  constexpr unsigned few = 2 * (128 + control_threads);
  return bytes <= std::uint64_t{slot_blocks} * min_bytes_per_block ? few : max_paired_threads;
}

/// A counter in a cache line of its own, which wraps.
struct alignas(64) slot_counter {
  std::uint32_t value = 0;
};

/// Of a message, with each of its pieces.
struct slot_head {
  std::uint32_t bytes;
  std::uint32_t call;  ///< what it belongs to, as its callers count
};

/// The head precedes the data without a gap, so that both can be sent on as one message.
struct alignas(128) message_slot {
  char unused[120];
  slot_head head;
  char data[slot_bytes];
};
static_assert(sizeof(message_slot) == 128 + slot_bytes);

/// Where a rank's kernels find the messages of one other rank: in memory of the rank's device, to
/// which the other's kernels write; or in pinned memory of both, between which their processors
/// pass them on (`slot_relay`). A rank's kernels access the other's memory only to send: what was
/// received may be freed, whatever the sender does.
struct slot_memory {
  // Written by the other rank, for each block.
  slot_counter filled[slot_blocks];
  // By this rank's kernels, and read by the other.
  slot_counter emptied[slot_blocks];
  message_slot slots[slot_blocks][slots_per_block];
};

/// In memory of the rank's device, by its kernels alone.
struct slot_progress {
  slot_counter sent[slot_blocks];
  slot_counter received[slot_blocks];
  slot_counter known_emptied[slot_blocks];  ///< of the other's slots, when that was read last
};

/// In pinned memory of the rank.
struct slot_report {
  // By its kernels.
  std::uint32_t sent[slot_blocks] = {};
  std::uint32_t received[slot_blocks] = {};
  std::uint32_t differs = 0;  ///< not 0: a message and its receive differ
  slot_head sent_head = {}, expected_head = {};
  // By the processor.
  std::uint32_t relayed[slot_blocks] = {};  ///< of those that were sent, by a `slot_relay`
  std::uint32_t is_aborted = 0;             ///< not 0: kernels wait for nothing, and move nothing
};

/// Messages in one direction between two ranks, in their order.
struct slot_direction {
  slot_memory* own;
  slot_memory* other;
  slot_progress* progress;
  slot_report* report;
  std::uint8_t is_send;
  std::uint8_t first_message, messages;  ///< in `slot_work::message`
  std::uint32_t counts[slot_blocks];     ///< pieces of each block before these
};

struct slot_message {
  char* data;
  slot_head head;
};

/// Of two ranks: for each part a block sends it, and another combines what arrives, which is as
/// long, with data of this rank. Both directions are of no messages.
struct slot_exchange {
  slot_direction send, receive;
  const char* sent;  ///< null: nothing is sent
  const char* combined;
  char* into;  ///< also where `sent` or `combined` is
  slot_head head;
};

/// The argument of a kernel: `blocks` thread blocks carry each direction. Only what is used has
/// contents.
template <unsigned Directions, unsigned Messages>
struct slot_work_of {
  static constexpr unsigned max_directions = Directions, max_messages = Messages;

  std::uint32_t blocks, directions;
  slot_direction direction[max_directions];
  slot_message message[max_messages];
};
using slot_work = slot_work_of<22, 24>;
static_assert(sizeof(slot_work) <= 4096);
/// Of messages between two ranks: a launch costs less if its argument is short.
using short_slot_work = slot_work_of<2, 4>;

/// A copy between memory of a device and pinned memory, by `blocks_for` its bytes or one block.
struct staged_copy {
  char* to;
  const char* from;
  std::uint64_t bytes;
  /// The copy begins when this is at least `number`; null: at once.
  const std::uint32_t* awaited;
  std::uint32_t* copied;  ///< of each block: set to `number` when its part is copied
  std::uint32_t number;
};

}  // namespace tandem::detail
