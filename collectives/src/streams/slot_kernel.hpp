// The kernel that carries messages between two GPUs through slots (`slot_memory`): a part of the
// kernel source that is compiled at run time, behind piece_copies.hpp.
#pragma once

namespace tandem::detail {
namespace {

/// Until another kernel has counted so far; then `count` is what was read. False: aborted.
inline bool await_count(const std::uint32_t* counter, std::uint32_t value,
                        const slot_report* report, std::uint32_t& count) {
  constexpr unsigned spins_per_look = 256;  // the report is in the memory of the host
  for (unsigned spins = 1;; ++spins) {
    count = load_word(counter);
    if (is_reached(count, value)) return true;
    if (spins % spins_per_look != 0) continue;
    if (load_word(&report->is_aborted) != 0) return false;
    rest();
  }
}

/// The part of one thread block in one direction.
class slot_copier {
 public:
  slot_copier(const slot_work& work, const slot_direction& direction, unsigned block)
      : work_(work), direction_(direction), block_(block), count_(direction.counts[block]) {}

  /// @param is_over  shared by the threads of the block
  void run(bool& is_over) {
    if (!has_pieces()) return;
    slot_progress& own = *direction_.progress;
    const bool is_send = direction_.is_send != 0;
    // Behind a kernel of another stream that was launched before.
    slot_counter* const done = is_send ? own.sent : own.received;
    if (threadIdx.x == 0) {
      std::uint32_t found = 0;
      is_over = !await_count(&done[block_].value, count_, direction_.report, found);
      if (is_send) known_emptied_ = own.known_emptied[block_].value;
    }
    for (unsigned i = 0; i < direction_.messages; ++i) {
      const slot_message& message = work_.message[direction_.first_message + i];
      const block_part part = part_of(message.head.bytes, block_);
      for (std::uint64_t at = 0; at < part.bytes; at += slot_bytes, ++count_) {
        const std::uint64_t left = part.bytes - at;
        char* const data = message.data + part.first + at;
        const std::uint64_t bytes = left < slot_bytes ? left : slot_bytes;
        if (is_send) {
          send(data, bytes, message.head, is_over);
        } else {
          receive(data, bytes, message.head, is_over);
        }
      }
    }
    if (threadIdx.x != 0) return;
    if (is_send) own.known_emptied[block_].value = known_emptied_;
    store_word(&done[block_].value, count_);
    slot_report& report = *direction_.report;
    store_word(is_send ? &report.sent[block_] : &report.received[block_], count_);
  }

 private:
  bool has_pieces() const {
    for (unsigned i = 0; i < direction_.messages; ++i) {
      const slot_message& message = work_.message[direction_.first_message + i];
      if (part_of(message.head.bytes, block_).bytes != 0) return true;
    }
    return false;
  }
  unsigned slot() const { return count_ % slots_per_block; }

  void send(const char* data, std::uint64_t bytes, const slot_head& of, bool& is_over) {
    slot_memory& there = *direction_.other;
    if (threadIdx.x == 0 && !is_over) {
      const std::uint32_t needed = count_ + 1 - slots_per_block;
      if (!is_reached(known_emptied_, needed)) {
        const std::uint32_t* const emptied = &there.emptied[block_].value;
        is_over = !await_count(emptied, needed, direction_.report, known_emptied_);
      }
    }
    meet();
    const bool moves = !is_over;
    message_slot& into = there.slots[block_][slot()];
    if (moves) copy_piece(into.data, data, bytes);
    if (moves && threadIdx.x == 0) into.head = of;
    meet();
    if (moves && threadIdx.x == 0) store_word(&there.filled[block_].value, count_ + 1);
  }

  void receive(char* data, std::uint64_t bytes, const slot_head& of, bool& is_over) {
    slot_memory& here = *direction_.own;
    if (threadIdx.x == 0 && !is_over) {
      std::uint32_t found = 0;
      is_over = !await_count(&here.filled[block_].value, count_ + 1, direction_.report, found);
      if (!is_over) is_over = !is_expected(of);
    }
    meet();
    const bool moves = !is_over;
    if (moves) copy_piece(data, here.slots[block_][slot()].data, bytes);
    meet();
    if (moves && threadIdx.x == 0) store_word(&here.emptied[block_].value, count_ + 1);
  }

  bool is_expected(const slot_head& expected) const {
    const slot_head& head = direction_.own->slots[block_][slot()].head;
    const slot_head sent{load_unit(&head.bytes), load_unit(&head.call)};
    if (sent.bytes == expected.bytes && sent.call == expected.call) return true;
    slot_report& report = *direction_.report;
    report.sent_head = sent;
    report.expected_head = expected;
    store_word(&report.differs, 1);
    return false;
  }

  const slot_work& work_;
  const slot_direction& direction_;
  const unsigned block_;
  std::uint32_t count_;
  std::uint32_t known_emptied_ = 0;  ///< of the first thread
};

}  // namespace
}  // namespace tandem::detail

/// Messages of several directions at a time: all wait for one another without a deadlock.
TANDEM_SLOT_ENTRY void tandem_carry_messages(TANDEM_SLOT_ARGUMENT tandem::detail::slot_work work) {
  TANDEM_SLOT_SHARED bool is_over;
  tandem::detail::slot_copier(work, work.direction[blockIdx.x / work.blocks],
                              blockIdx.x % work.blocks)
      .run(is_over);
}
