#include "shm/offered_buffers.hpp"

#include "shm/shared_buffers.hpp"

namespace tandem::shm {

std::optional<std::uint32_t> offered_buffers::slot_of(const pages& which) const noexcept {
  for (std::uint32_t slot = 0; slot < most_offers; ++slot) {
    const std::weak_ptr<const shared_pages>& held = offered_[slot];
    if (!held.owner_before(which) && !which.owner_before(held)) return slot;
  }
  return std::nullopt;
}

/// Uses the first slot that is unused or whose buffer is gone.
std::optional<std::uint32_t> offered_buffers::offer(const pages& which) {
  for (std::uint32_t slot = 0; slot < most_offers; ++slot) {
    if (!offered_[slot].expired()) continue;
    const shared_pages::place place = which->where();
    offer_words& words = mine_.offered[slot];
    words.generation.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    words.process.store(place.process, std::memory_order_relaxed);
    words.descriptor.store(place.descriptor, std::memory_order_relaxed);
    words.inode.store(place.inode, std::memory_order_relaxed);
    words.bytes.store(place.bytes, std::memory_order_relaxed);
    offered_[slot] = which;
    if (++generations_[slot] == 0) generations_[slot] = 1;
    words.generation.store(generations_[slot], std::memory_order_release);
    mine_.offers.store(++offers_, std::memory_order_release);
    return slot;
  }
  return std::nullopt;
}

std::optional<offered_buffers::spot> offered_buffers::find(const void* data, std::size_t bytes) {
  const pages found = find_shared_pages(data, bytes);
  if (!found) return std::nullopt;
  std::optional<std::uint32_t> slot = slot_of(found);
  if (!slot) slot = offer(found);
  if (!slot || theirs_.mapped[*slot].load(std::memory_order_acquire) != generations_[*slot]) {
    return std::nullopt;
  }
  return spot{*slot,
              static_cast<std::uint64_t>(static_cast<const std::byte*>(data) - found->data())};
}

}  // namespace tandem::shm
