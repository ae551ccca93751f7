// The kernels that carry messages between GPUs through slots: a part of the kernel source that is
// compiled at run time, behind slot_copier.hpp.
#pragma once

namespace tandem::detail {
namespace {

/// The part of one thread block in one direction. @param is_over  shared by its threads
template <class Work>
inline void carry_direction(const Work& work, const slot_direction& direction, unsigned block,
                            bool& is_over) {
  const auto message = [&](unsigned i) -> const slot_message& {
    return work.message[direction.first_message + i];
  };
  bool has_pieces = false;
  for (unsigned i = 0; i < direction.messages; ++i) {
    has_pieces = has_pieces || part_of(message(i).head.bytes, block).bytes != 0;
  }
  if (!has_pieces) return;
  const thread_group all = whole_block(), copiers = copiers_of(all);
  if (is_control(all)) is_over = false;
  slot_copier by(direction, block, all);
  by.begin(is_over);
  for (unsigned i = 0; i < direction.messages; ++i) {
    const slot_message& each = message(i);
    const block_part part = part_of(each.head.bytes, block);
    const std::uint64_t step_bytes = step_bytes_of(each.head.bytes);
    for (std::uint64_t at = 0; at < part.bytes; at += step_bytes) {
      const std::uint64_t bytes = bytes_of_step(part, at, step_bytes);
      char* const data = each.data + part.first + at;
      if (direction.is_send != 0) {
        by.send(data, bytes, each.head, is_over);
      } else {
        by.receive(bytes, each.head, is_over,
                   [=](const char* from, std::uint64_t offset, std::uint64_t length) {
                     copy_piece(data + offset, from, length, copiers);
                   });
      }
    }
  }
  by.end(is_over);
}

/// Of several directions at a time: all wait for one another without a deadlock.
template <class Work>
inline void carry_messages(const Work& work, bool& is_over) {
  carry_direction(work, work.direction[blockIdx.x / work.blocks], blockIdx.x % work.blocks,
                  is_over);
}

}  // namespace
}  // namespace tandem::detail

TANDEM_SLOT_ENTRY void tandem_carry_messages(TANDEM_SLOT_ARGUMENT tandem::detail::slot_work work) {
  TANDEM_SLOT_SHARED bool is_over;
  tandem::detail::carry_messages(work, is_over);
}
TANDEM_SLOT_ENTRY void tandem_carry_few(TANDEM_SLOT_ARGUMENT tandem::detail::short_slot_work work) {
  TANDEM_SLOT_SHARED bool is_over;
  tandem::detail::carry_messages(work, is_over);
}
