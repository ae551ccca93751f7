#include <bit>
#include <tandem/detail/board.hpp>
#include <tandem/detail/fence.hpp>

namespace tandem {

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
    std::atomic<std::uint32_t>& blocked = of(r).state.blocked;
    if (blocked.load(std::memory_order_relaxed) == 0) continue;
    if (blocked.exchange(0, std::memory_order_seq_cst) != 0) ring_doorbell(r);
  }
}

void board::set_blocked() noexcept {
  of(rank_).state.blocked.store(1, std::memory_order_relaxed);
  detail::full_fence();  // pairs with `wake_blocked_ranks`
}

void board::clear_blocked() noexcept {
  of(rank_).state.blocked.store(0, std::memory_order_relaxed);
}

}  // namespace tandem
