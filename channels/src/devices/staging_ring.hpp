#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace tandem::devices {

/// Allocator of slots in a ring of bytes, without the bytes: slots are taken in order and given
/// back in any order; a slot is free again when all that were taken before it are given back, too.
/// Copies and messages complete nearly in order, so little room is lost, and slots of any length
/// fit.
class staging_ring {
 public:
  explicit staging_ring(std::size_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  /// Offset of `bytes` contiguous bytes; nothing while the ring is full.
  /// @pre 0 < bytes <= capacity_bytes
  std::optional<std::size_t> take(std::size_t bytes);
  /// @param first  returned by `take`
  void give_back(std::size_t first) noexcept;

  std::size_t capacity_bytes() const noexcept { return capacity_bytes_; }
  bool is_empty() const noexcept { return count_ == 0; }

 private:
  struct region {
    std::size_t first = 0;
    std::size_t end = 0;
    bool is_taken = false;
  };

  region& at(std::size_t index) noexcept { return regions_[(oldest_ + index) % regions_.size()]; }
  void add(std::size_t first, std::size_t bytes);

  std::size_t capacity_bytes_;
  std::vector<region> regions_;  // a ring itself, which grows as needed
  std::size_t oldest_ = 0;
  std::size_t count_ = 0;
};

}  // namespace tandem::devices
