#pragma once

#include <array>
#include <memory>

#include "shared_memory/shared_pages.hpp"
#include "transports/shm/memory.hpp"

namespace tandem::shm {

/// The peer's shared buffers, mapped here as it offers them. The peer is not trusted: only sealed
/// memory of this user is mapped, and every payload is checked against the bounds of its buffer.
class mapped_buffers {
 public:
  mapped_buffers(control_block& local, const control_block& remote) noexcept
      : local_(local), remote_(remote) {}

  /// Maps newly offered buffers and unmaps retired ones. @par Cost  one load where nothing has
  /// changed; else some tens of microseconds for each buffer.
  void take_offers() {
    const std::uint32_t offers = remote_.offers.load(std::memory_order_acquire);
    if (offers != seen_offers_) map_offers(offers);
  }
  /// Null where no mapped buffer of the peer has these bytes.
  const std::byte* find(std::uint32_t slot, std::uint64_t offset, std::size_t bytes) const noexcept;

 private:
  struct mapping {
    std::uint32_t generation = 0;
    std::unique_ptr<const shared_pages> pages;  // null: it could not be mapped
  };
  void map_offers(std::uint32_t offers);
  void map(std::uint32_t slot, std::uint32_t generation);

  control_block& local_;
  const control_block& remote_;
  std::uint32_t seen_offers_ = 0;
  std::array<mapping, max_offers> all_;
};

}  // namespace tandem::shm
