#include "transports/shm/mapped_buffers.hpp"

#include <tandem/log.hpp>

namespace tandem::shm {

void mapped_buffers::map_offers(std::uint32_t offers) {
  seen_offers_ = offers;
  for (std::uint32_t slot = 0; slot < max_offers; ++slot) {
    const std::uint32_t generation =
        remote_.offered[slot].generation.load(std::memory_order_acquire);
    if (generation != all_[slot].generation) map(slot, generation);
  }
}

void mapped_buffers::map(std::uint32_t slot, std::uint32_t generation) {
  mapping& here = all_[slot];
  here = {};
  local_.mapped[slot].store(0, std::memory_order_relaxed);
  if (generation == 0) return;
  const buffer_offer& offer_entry = remote_.offered[slot];
  const shared_pages::location location{offer_entry.process.load(std::memory_order_relaxed),
                                        offer_entry.descriptor.load(std::memory_order_relaxed),
                                        offer_entry.inode.load(std::memory_order_relaxed),
                                        offer_entry.bytes.load(std::memory_order_relaxed)};
  // Overwritten meanwhile: the new generation is announced by another increment of `offers`.
  std::atomic_thread_fence(std::memory_order_acquire);
  if (offer_entry.generation.load(std::memory_order_relaxed) != generation) return;
  here.generation = generation;
  try {
    here.pages = std::make_unique<const shared_pages>(location, population::on_demand);
  } catch (const std::exception& failure) {
    // Gone already, or not accessible: its payloads come through the ring.
    log(log_level::debug, "shm", describe(failure));
    return;
  }
  local_.mapped[slot].store(generation, std::memory_order_release);
}

const std::byte* mapped_buffers::find(std::uint32_t slot, std::uint64_t offset,
                                      std::size_t bytes) const noexcept {
  if (slot >= max_offers || !all_[slot].pages) return nullptr;
  const shared_pages& in = *all_[slot].pages;
  if (offset > in.size() || bytes > in.size() - offset) return nullptr;
  return in.data() + offset;
}

}  // namespace tandem::shm
