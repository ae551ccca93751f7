#pragma once

#include <array>
#include <memory>
#include <optional>

#include "shm/memory.hpp"
#include "shm/shared_pages.hpp"

namespace tandem::shm {

/// This end's shared buffers that are offered to the peer. A buffer is offered with the first
/// payload out of it, which itself still goes through the ring; the peer maps it when it next reads
/// a record. A slot is reused when its buffer is gone; buffers beyond `max_offers` are not offered.
class offered_buffers {
 public:
  offered_buffers(end_words& mine, const end_words& theirs) noexcept
      : mine_(mine), theirs_(theirs) {}

  /// Where the peer finds a payload.
  struct spot {
    std::uint32_t slot = 0;
    std::uint64_t offset = 0;
  };
  /// None where the payload is in no shared buffer, or in one that the peer has not mapped.
  std::optional<spot> find(const void* data, std::size_t bytes);

 private:
  using pages = std::shared_ptr<const shared_pages>;

  std::optional<std::uint32_t> slot_of(const pages& which) const noexcept;
  std::optional<std::uint32_t> offer(const pages& which);

  end_words& mine_;
  const end_words& theirs_;
  std::array<std::weak_ptr<const shared_pages>, most_offers> offered_;
  std::array<std::uint32_t, most_offers> generations_{};
  std::uint32_t offers_ = 0;
};

}  // namespace tandem::shm
