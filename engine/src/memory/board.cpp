#include <bit>
#include <tandem/detail/board.hpp>
#include <tandem/detail/fence.hpp>

namespace tandem {

/// What a blocked rank waits for: a call, modulo 2^48, and 16 bits for its ranks. The bit of the
/// blocked rank itself: any write. 0: it is not blocked. One word, so that nobody takes a rank out
/// of what has become another wait. Other processes may write anything.
class board::blocked_word {
 public:
  explicit blocked_word(std::uint64_t bits) noexcept : bits_(bits) {}
  explicit blocked_word(const awaited& what) noexcept
      : bits_(what.call << rank_bits | what.ranks) {}

  std::uint64_t bits() const noexcept { return bits_; }
  std::uint64_t call() const noexcept { return bits_ >> rank_bits; }
  static bool is_same_call(std::uint64_t a, std::uint64_t b) noexcept {
    return a << rank_bits == b << rank_bits;
  }
  bool waits_for(int rank) const noexcept { return (bits_ >> rank & 1) != 0; }
  /// 0: it waits for no other.
  std::uint64_t without(int rank) const noexcept {
    const std::uint64_t rest = bits_ & ~(std::uint64_t{1} << rank);
    return (rest & ((std::uint64_t{1} << rank_bits) - 1)) == 0 ? 0 : rest;
  }

 private:
  static constexpr int rank_bits = 16;
  static_assert(max_ranks <= rank_bits);

  std::uint64_t bits_;
};

std::size_t board::bytes_for(int ranks) noexcept {
  return static_cast<std::size_t>(ranks) * sizeof(area);
}

/// Does not initialise the memory: it starts as zeros, and another rank may have written already.
board::board(std::byte* memory, int rank, int size) noexcept
    : areas_(reinterpret_cast<area*>(memory)), rank_(rank), size_(size) {}

void board::begin(std::uint64_t call) noexcept {
  flush_wakeups();
  open_ |= std::uint64_t{1} << call % max_open_calls;
  if (call >= newest_) newest_ = call + 1;
}

void board::end(std::uint64_t call) noexcept {
  open_ &= ~(std::uint64_t{1} << call % max_open_calls);
  // Rotated so that bit 63 is the newest call; the lowest set bit is the oldest open one.
  const std::uint64_t rotated = std::rotr(open_, static_cast<int>(newest_ % max_open_calls));
  const auto later = static_cast<std::uint64_t>(open_ == 0 ? 0 : 64 - std::countr_zero(rotated));
  of(rank_).state.finished.store(newest_ - later, std::memory_order_release);
  wakeup_pending_ = true;
  if (flushes_soon()) {
    ring_blocked_ranks();
  } else {
    wake_blocked_ranks();
  }
}

std::byte* board::slot_for(std::uint64_t call) noexcept {
  const std::uint64_t last = used_[call % slots_per_rank];
  for (int r = 0; r < size_; ++r) {
    std::uint64_t& seen = finished_[static_cast<std::size_t>(r)];
    if (seen >= last) continue;
    seen = of(r).state.finished.load(std::memory_order_seq_cst);
    if (seen >= last) continue;
    lagging_rank_ = r;
    return nullptr;
  }
  return of(rank_).slots[call % slots_per_rank].data;
}

void board::publish(std::uint64_t call, const call_signature& signature,
                    std::size_t bytes) noexcept {
  slot& own = of(rank_).slots[call % slots_per_rank];
  own.what = signature.call;
  own.history = signature.history;
  own.bytes = static_cast<std::uint32_t>(bytes);
  used_[call % slots_per_rank] = call + 1;
  own.call.store(call + 1, std::memory_order_release);
  wakeup_pending_ = true;
}

board::contribution board::find(int rank, std::uint64_t call) const noexcept {
  if (!has(rank, call)) return {};
  const slot& there = of(rank).slots[call % slots_per_rank];
  // Prefetch the next slot: if that rank is ahead, the next call would wait for the cache line.
  __builtin_prefetch(&of(rank).slots[(call + 1) % slots_per_rank]);
  return {there.data, there.bytes, {there.what, there.history}};
}

/// A blocking rank sets its flag, then polls; this rank has written, then reads the flag; each has
/// a fence between, so at least one of them sees the other. The fence waits until the stores have
/// left this core, 0.1 us if others poll those lines, so it is deferred until this rank is idle or
/// the stores have long completed.
void board::wake_blocked_ranks() noexcept {
  wakeup_pending_ = false;
  detail::full_fence();
  ring_blocked_ranks();
}

void board::ring_blocked_ranks() noexcept {
  for (int r = 0; r < size_; ++r) {
    if (arrive(rank_, of(r).state.blocked, r)) ring_doorbell(r);
  }
}

bool board::has_contributed(int rank, const blocked_word& to) const noexcept {
  const auto& there = of(rank).slots[to.call() % slots_per_rank].call;
  return blocked_word::is_same_call(there.load(std::memory_order_acquire) - 1, to.call());
}

bool board::arrive(int rank, std::atomic<std::uint64_t>& blocked, int blocked_rank) const noexcept {
  std::uint64_t bits = blocked.load(std::memory_order_relaxed);
  while (bits != 0) {
    const blocked_word word(bits);
    std::uint64_t rest = 0;
    if (!word.waits_for(blocked_rank)) {  // else for any write
      if (!word.waits_for(rank) || !has_contributed(rank, word)) return false;
      rest = word.without(rank);
    }
    if (blocked.compare_exchange_weak(bits, rest, std::memory_order_seq_cst)) return rest == 0;
  }
  return false;
}

/// Ranks that have contributed before they could see the word are taken out of it here.
void board::set_blocked(const std::optional<awaited>& until) noexcept {
  std::atomic<std::uint64_t>& own = of(rank_).state.blocked;
  const awaited any{0, std::uint32_t{1} << rank_};
  own.store(blocked_word(until.value_or(any)).bits(), std::memory_order_relaxed);
  detail::full_fence();  // pairs with `wake_blocked_ranks`
  for (int r = 0; until && r < size_; ++r) {
    if ((until->ranks >> r & 1) != 0 && has(r, until->call)) arrive(r, own, rank_);
  }
}

void board::clear_blocked() noexcept {
  of(rank_).state.blocked.store(0, std::memory_order_relaxed);
}

}  // namespace tandem
