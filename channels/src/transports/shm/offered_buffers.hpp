#pragma once

#include <array>
#include <memory>
#include <optional>

#include "shared_memory/shared_pages.hpp"
#include "transports/shm/memory.hpp"

namespace tandem::shm {

/// This end's shared buffers that are offered to the peer. A buffer is offered with the first
/// payload out of it, which itself still goes through the ring; the peer maps it when it next reads
/// a record. A slot is reused when its buffer is gone; buffers beyond `max_offers` are not offered.
class offered_buffers {
 public:
  offered_buffers(control_block& local, const control_block& remote) noexcept
      : local_(local), remote_(remote) {}

  /// Where the peer finds a payload.
  struct buffer_location {
    std::uint32_t slot = 0;
    std::uint64_t offset = 0;
  };
  /// None where the payload is in no shared buffer, or in one that the peer has not mapped.
  std::optional<buffer_location> find(const void* data, std::size_t bytes);

 private:
  using pages = std::shared_ptr<const shared_pages>;

  std::optional<std::uint32_t> slot_of(const pages& which) const noexcept;
  std::optional<std::uint32_t> offer(const pages& which);

  control_block& local_;
  const control_block& remote_;
  std::array<std::weak_ptr<const shared_pages>, max_offers> offered_;
  std::array<std::uint32_t, max_offers> generations_{};
  std::uint32_t offers_ = 0;
};

}  // namespace tandem::shm
