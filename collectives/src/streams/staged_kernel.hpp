// The kernel that copies between memory of a device and pinned memory, and waits for the processor
// before: a part of the kernel source that is compiled at run time, behind piece_copies.hpp.
#pragma once

namespace tandem::detail {
namespace {

/// The part of one thread block.
inline void copy_staged(const staged_copy& what, unsigned block) {
  const thread_group by = whole_block();
  if (by.thread == 0 && what.awaited != nullptr) {
    while (!is_reached(load_word(what.awaited), what.number)) rest();
  }
  meet(by.barrier, by.threads);
  const block_part part = part_of(what.bytes, block);
  copy_piece(what.to + part.first, what.from + part.first, part.bytes, by);
  meet(by.barrier, by.threads);
  if (by.thread == 0) store_word(&what.copied[block], what.number);
}

}  // namespace
}  // namespace tandem::detail

TANDEM_SLOT_ENTRY void tandem_copy_staged(TANDEM_SLOT_ARGUMENT tandem::detail::staged_copy what) {
  tandem::detail::copy_staged(what, blockIdx.x);
}
