#include "transports/shm/offered_buffers.hpp"

#include "shared_memory/shared_pages.hpp"

namespace tandem::shm {

std::optional<std::uint32_t> offered_buffers::slot_of(const pages& which) const noexcept {
  for (std::uint32_t slot = 0; slot < max_offers; ++slot) {
    const std::weak_ptr<const shared_pages>& held = offered_[slot];
    if (!held.owner_before(which) && !which.owner_before(held)) return slot;
  }
  return std::nullopt;
}

/// Uses the first slot that is unused or whose buffer is gone.
std::optional<std::uint32_t> offered_buffers::offer(const pages& which) {
  for (std::uint32_t slot = 0; slot < max_offers; ++slot) {
    if (!offered_[slot].expired()) continue;
    const shared_pages::location location = which->where();
    buffer_offer& offer_entry = local_.offered[slot];
    offer_entry.generation.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    offer_entry.process.store(location.process, std::memory_order_relaxed);
    offer_entry.descriptor.store(location.descriptor, std::memory_order_relaxed);
    offer_entry.inode.store(location.inode, std::memory_order_relaxed);
    offer_entry.bytes.store(location.bytes, std::memory_order_relaxed);
    offered_[slot] = which;
    if (++generations_[slot] == 0) generations_[slot] = 1;
    offer_entry.generation.store(generations_[slot], std::memory_order_release);
    local_.offers.store(++offers_, std::memory_order_release);
    return slot;
  }
  return std::nullopt;
}

std::optional<offered_buffers::buffer_location> offered_buffers::find(const void* data,
                                                                      std::size_t bytes) {
  const pages found = find_shared_pages(data, bytes);
  if (!found) return std::nullopt;
  std::optional<std::uint32_t> slot = slot_of(found);
  if (!slot) slot = offer(found);
  if (!slot || remote_.mapped[*slot].load(std::memory_order_acquire) != generations_[*slot]) {
    return std::nullopt;
  }
  return buffer_location{
      *slot, static_cast<std::uint64_t>(static_cast<const std::byte*>(data) - found->data())};
}

}  // namespace tandem::shm
