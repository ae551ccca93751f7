#include <bit>
#include <tandem/board.hpp>
#include <tandem/detail/fence.hpp>

namespace tandem {

std::size_t board::bytes_for(int ranks) noexcept {
  return static_cast<std::size_t>(ranks) * sizeof(area);
}

/// Does not initialise the memory: it starts as zeros, and another rank may have written already.
board::board(std::byte* memory, int rank, int size) noexcept
    : areas_(reinterpret_cast<area*>(memory)), rank_(rank), size_(size) {}

void board::begin(std::uint64_t call) noexcept {
  settle();
  open_ |= std::uint64_t{1} << call % calls_at_once;
  if (call >= newest_) newest_ = call + 1;
}

void board::end(std::uint64_t call) noexcept {
  open_ &= ~(std::uint64_t{1} << call % calls_at_once);
  // Rotated so that bit 63 is the newest call; the lowest set bit is the oldest open one.
  const std::uint64_t rotated = std::rotr(open_, static_cast<int>(newest_ % calls_at_once));
  const auto later = static_cast<std::uint64_t>(open_ == 0 ? 0 : 64 - std::countr_zero(rotated));
  of(rank_).told.finished.store(newest_ - later, std::memory_order_release);
  owes_look_ = true;
  if (settles_soon()) {
    ring_sleepers();
  } else {
    look_for_sleepers();
  }
}

std::byte* board::place_for(std::uint64_t call) noexcept {
  const std::uint64_t last = used_[call % places];
  for (int r = 0; r < size_; ++r) {
    std::uint64_t& seen = finished_[static_cast<std::size_t>(r)];
    if (seen >= last) continue;
    seen = of(r).told.finished.load(std::memory_order_seq_cst);
    if (seen >= last) continue;
    behind_ = r;
    return nullptr;
  }
  return of(rank_).slots[call % places].data;
}

void board::publish(std::uint64_t call, const message_note& note, std::size_t bytes) noexcept {
  slot& own = of(rank_).slots[call % places];
  own.what = note.call;
  own.history = note.history;
  own.bytes = static_cast<std::uint32_t>(bytes);
  used_[call % places] = call + 1;
  own.call.store(call + 1, std::memory_order_release);
  owes_look_ = true;
}

board::brought board::find(int rank, std::uint64_t call) const noexcept {
  if (!has(rank, call)) return {};
  const slot& there = of(rank).slots[call % places];
  // Prefetch the next slot: if that rank is ahead, the next call would wait for the cache line.
  __builtin_prefetch(&of(rank).slots[(call + 1) % places]);
  return {there.data, there.bytes, {there.what, there.history}};
}

/// A blocking rank sets its flag, then polls; this rank has written, then reads the flag; each has
/// a fence between, so at least one of them sees the other. The fence waits until the stores have
/// left this core, 0.1 us if others poll those lines, so it is deferred until this rank is idle or
/// the stores have long completed.
void board::look_for_sleepers() noexcept {
  owes_look_ = false;
  detail::full_fence();
  ring_sleepers();
}

void board::ring_sleepers() noexcept {
  for (int r = 0; r < size_; ++r) {
    std::atomic<std::uint32_t>& asleep = of(r).told.asleep;
    if (asleep.load(std::memory_order_relaxed) == 0) continue;
    if (asleep.exchange(0, std::memory_order_seq_cst) != 0) ring(r);
  }
}

void board::fall_asleep() noexcept {
  of(rank_).told.asleep.store(1, std::memory_order_relaxed);
  detail::full_fence();  // pairs with `look_for_sleepers`
}

void board::be_awake() noexcept {
  of(rank_).told.asleep.store(0, std::memory_order_relaxed);
}

}  // namespace tandem
