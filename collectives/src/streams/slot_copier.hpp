// The part of one thread block in messages between two GPUs through slots (`slot_memory`): a part
// of the kernel sources that are compiled at run time, behind piece_copies.hpp.
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

/// What a block copies before it notifies the other rank, which takes as long as to copy several
/// pieces. A sender notifies that it has filled some when it begins with the next, and a receiver
/// that it has emptied some when the next have arrived: a block needs slots for three steps, or
/// each would wait for what the other has not sent yet, and for more to be busy.
/// Longer messages have longer steps, which cost less (two H200, bench/RESULTS.md).
constexpr std::uint64_t step_bytes_of(std::uint64_t message_bytes) {
  constexpr std::uint64_t max_in_short_steps = std::uint64_t{64} << 20;
  return slots_per_block / (message_bytes <= max_in_short_steps ? 8 : 4) *
         std::uint64_t{slot_bytes};
}

/// Of a group the threads that copy, from the first on, and the one that waits and notifies.
inline thread_group copiers_of(const thread_group& all) {
  const unsigned others = all.threads > control_threads ? control_threads : 0;
  return {all.thread, all.threads - others, all.barrier};
}
inline bool is_control(const thread_group& all) {
  const unsigned copying = copiers_of(all).threads;
  return all.thread == (copying < all.threads ? copying : 0);
}

/// Of the step of a block's part that begins there.
inline std::uint64_t bytes_of_step(const block_part& part, std::uint64_t at,
                                   std::uint64_t step_bytes) {
  const std::uint64_t left = part.bytes - at;
  return left < step_bytes ? left : step_bytes;
}
/// Calls `use(offset, bytes)` for each piece of so many bytes.
template <class Use>
inline void in_pieces(std::uint64_t bytes, Use use) {
  for (std::uint64_t at = 0; at < bytes; at += slot_bytes) {
    use(at, bytes - at < slot_bytes ? bytes - at : slot_bytes);
  }
}

/// One direction. All calls by all threads of the group, which share `is_over`: once it is set,
/// nothing is moved, and only counted.
class slot_copier {
 public:
  slot_copier(const slot_direction& direction, unsigned block, const thread_group& by)
      : direction_(direction),
        block_(block),
        by_(by),
        copiers_(copiers_of(by)),
        count_(direction.counts[block]),
        notified_(count_) {}

  /// Behind kernels of other streams that were launched before.
  void begin(bool& is_over) {
    if (!is_control(by_)) return;
    slot_progress& own = *direction_.progress;
    std::uint32_t found = 0;
    is_over |= !await_count(&done()[block_].value, count_, direction_.report, found);
    if (is_send()) known_emptied_ = own.known_emptied[block_].value;
  }

  /// A step.
  void send(const char* data, std::uint64_t bytes, const slot_head& of, bool& is_over) {
    slot_memory& there = *direction_.other;
    const std::uint32_t behind = count_ + pieces_of(bytes);
    if (is_control(by_) && !is_over) {
      const std::uint32_t needed = behind - slots_per_block;
      if (!is_reached(known_emptied_, needed)) {
        const std::uint32_t* const emptied = &there.emptied[block_].value;
        is_over = !await_count(emptied, needed, direction_.report, known_emptied_);
      }
    }
    meet(by_.barrier, by_.threads);
    const bool moves = !is_over;
    if (moves && is_control(by_)) notify_peer();
    if (moves && by_.thread < copiers_.threads) {
      in_pieces(bytes, [&](std::uint64_t at, std::uint64_t length) {
        message_slot& into = there.slots[block_][slot()];
        copy_piece<true>(into.data, data + at, length, copiers_);
        if (by_.thread == 0) into.head = of;
        ++count_;
      });
    }
    count_ = behind;
  }

  /// A step. @param use  is called with each piece that has arrived, its offset and its length,
  ///   by the threads that copy
  template <class Use>
  void receive(std::uint64_t bytes, const slot_head& of, bool& is_over, Use use) {
    slot_memory& here = *direction_.own;
    const std::uint32_t behind = count_ + pieces_of(bytes);
    if (is_control(by_) && !is_over) {
      std::uint32_t found = 0;
      is_over = !await_count(&here.filled[block_].value, behind, direction_.report, found);
      if (!is_over) is_over = !is_expected(of);
    }
    meet(by_.barrier, by_.threads);
    const bool moves = !is_over;
    if (moves && is_control(by_)) notify_peer();
    if (moves && by_.thread < copiers_.threads) {
      in_pieces(bytes, [&](std::uint64_t at, std::uint64_t length) {
        use(static_cast<const char*>(here.slots[block_][slot()].data), at, length);
        ++count_;
      });
    }
    count_ = behind;
  }

  /// Of a group that receives, until the one that sends at the same time has read so many bytes of
  /// its part.
  void await_sent(const slot_direction& send, std::uint64_t bytes, bool& is_over) const {
    if (!is_control(by_) || is_over) return;
    const std::uint32_t sent = send.counts[block_] + pieces_of(bytes);
    std::uint32_t found = 0;
    is_over = !await_count(&send.progress->sent[block_].value, sent, send.report, found);
  }

  /// Behind all pieces.
  void end(const bool& is_over) {
    meet(by_.barrier, by_.threads);
    if (!is_control(by_)) return;
    slot_report& report = *direction_.report;
    if (is_send()) direction_.progress->known_emptied[block_].value = known_emptied_;
    publish();
    if (!is_over) put_word(&notified().value, count_);
    put_word(&done()[block_].value, count_);
    put_word(is_send() ? &report.sent[block_] : &report.received[block_], count_);
  }

 private:
  bool is_send() const { return direction_.is_send != 0; }
  slot_counter& notified() const {
    return is_send() ? direction_.other->filled[block_] : direction_.own->emptied[block_];
  }
  /// The other rank, of the steps before this one.
  void notify_peer() {
    if (notified_ == count_) return;
    notified_ = count_;
    publish();
    put_word(&notified().value, count_);
    if (is_send()) put_word(&done()[block_].value, count_);
  }
  slot_counter* done() const {
    return is_send() ? direction_.progress->sent : direction_.progress->received;
  }
  static std::uint32_t pieces_of(std::uint64_t bytes) {
    return static_cast<std::uint32_t>((bytes + slot_bytes - 1) / slot_bytes);
  }
  unsigned slot() const { return count_ % slots_per_block; }

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

  const slot_direction& direction_;
  const unsigned block_;
  const thread_group by_, copiers_;
  std::uint32_t count_;
  // Of the thread that waits and notifies.
  std::uint32_t notified_;
  std::uint32_t known_emptied_ = 0;
};

}  // namespace
}  // namespace tandem::detail
