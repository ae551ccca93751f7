#pragma once

#include <array>
#include <optional>
#include <tandem/accelerator.hpp>

#include "devices/staging_ring.hpp"

namespace tandem::devices {

/// Pinned memory that one link's messages pass through, one way. Allocated when first needed, near
/// the device that needs it first; a ring for each vendor, as another's engines do not reach it.
class staging {
 public:
  explicit staging(std::size_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  /// Null while there is no room. @pre bytes <= a quarter of the capacity.
  /// @par Errors thrown: `device_failed` where the memory cannot be had.
  std::byte* take(accelerator& for_, std::size_t bytes);
  void give_back(memory_kind kind, const std::byte* which) noexcept;

 private:
  struct ring {
    explicit ring(accelerator& near, std::size_t bytes);
    pinned_buffer memory;
    staging_ring places;
  };
  std::optional<ring>& of(memory_kind kind) noexcept {
    return rings_[kind == memory_kind::cuda ? 0 : 1];
  }

  const std::size_t capacity_bytes_;
  std::array<std::optional<ring>, 2> rings_;
};

}  // namespace tandem::devices
