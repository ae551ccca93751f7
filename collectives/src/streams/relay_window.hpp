#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "streams/slot_words.hpp"

namespace tandem::detail {

/// The pieces of one thread block in one direction, which a `slot_relay` passes on: in their order,
/// several at a time. Without I/O. Counters wrap.
class relay_window {
 public:
  /// Kernels that were launched will have carried so many.
  void expect(std::uint32_t launched) noexcept { launched_ = launched; }
  /// Those that have not begun will not.
  void expect_no_more() noexcept { launched_ = begun_; }
  /// The slot of the next piece if that can begin, which has begun then.
  /// @param ready  how many can, of all: what the kernel has filled, or what it has emptied and the
  ///   slots besides
  std::optional<unsigned> begin_next(std::uint32_t ready) noexcept {
    if (begun_ == launched_ || begun_ - ended_ == slots_per_block) return std::nullopt;
    if (static_cast<std::int32_t>(ready - (begun_ + 1)) < 0) return std::nullopt;
    return begun_++ % slots_per_block;
  }
  /// The piece of that slot is through.
  void end(unsigned slot) noexcept { is_through_.set(slot); }
  /// The slot of the oldest piece if that is through; those before it were taken.
  std::optional<unsigned> take_ended() noexcept {
    const unsigned slot = ended_ % slots_per_block;
    if (ended_ == begun_ || !is_through_.test(slot)) return std::nullopt;
    is_through_.reset(slot);
    ++ended_;
    return slot;
  }
  /// How many were taken.
  std::uint32_t ended() const noexcept { return ended_; }
  /// Whether one that was launched has not begun.
  bool is_waiting() const noexcept { return begun_ != launched_; }
  /// Whether all that were launched are.
  bool is_through() const noexcept { return ended_ == launched_; }

 private:
  std::uint32_t launched_ = 0, begun_ = 0, ended_ = 0;
  std::bitset<slots_per_block> is_through_;
};

/// The lengths of a block's pieces, in their order.
class piece_lengths {
 public:
  /// Of the next one. @param head  what is sent with it
  std::size_t next(const slot_head& head, unsigned block) noexcept {
    if (left_ == 0) left_ = part_of(head.bytes, block).bytes;
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(left_, slot_bytes));
    left_ -= bytes;
    return bytes;
  }

 private:
  std::uint64_t left_ = 0;  ///< of the part of a message
};

}  // namespace tandem::detail
