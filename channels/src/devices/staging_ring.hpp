#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace tandem::devices {

/// Places in a ring of bytes, without the bytes: taken in order, given back in any order, free
/// again when all that were taken before are free too. Copies and messages end nearly in order, so
/// little is lost by that, and pieces of every length fit one ring.
class staging_ring {
 public:
  explicit staging_ring(std::size_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  /// Where `bytes` in a row are; nothing while there is no room. @pre 0 < bytes <= capacity_bytes
  std::optional<std::size_t> take(std::size_t bytes);
  /// @param first  as `take` gave it
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
  std::vector<region> regions_;  // itself a ring, which grows until it is warm
  std::size_t oldest_ = 0;
  std::size_t count_ = 0;
};

}  // namespace tandem::devices
