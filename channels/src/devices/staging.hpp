#pragma once

#include <array>
#include <functional>
#include <optional>
#include <tandem/accelerator.hpp>
#include <tandem/memory.hpp>

#include "devices/pinned_pages.hpp"
#include "devices/sharing.hpp"
#include "devices/staging_ring.hpp"

namespace tandem::devices {

/// Pinned memory through which one link's messages are copied, one way. Allocated on first use, on
/// the NUMA node of the device that uses it first; a ring for each vendor, as engines of another
/// vendor cannot access it.
class staging {
 public:
  /// @param registered  registers a new ring with the NICs, where there are any
  staging(std::size_t capacity_bytes, std::function<region(mutable_view)> registered)
      : capacity_bytes_(capacity_bytes), register_(std::move(registered)) {}

  /// Rings allocated from here on are shared with the peer, where kernel and driver allow it.
  void share() noexcept { is_shared_ = true; }
  std::size_t capacity_bytes() const noexcept { return capacity_bytes_; }
  /// Location of a vendor's ring for the peer; nothing: it is not shared or not allocated.
  std::optional<shared_pages::location> shared_at(memory_kind kind) const noexcept;
  /// @pre from `take`
  std::uint64_t offset_of(memory_kind kind, const std::byte* which) const noexcept;

  /// Null while the ring is full. @pre bytes <= a quarter of the capacity.
  /// @par Errors thrown: `device_failed`: the memory cannot be allocated.
  std::byte* take(accelerator& device, std::size_t bytes);
  void give_back(memory_kind kind, const std::byte* which) noexcept;

 private:
  struct ring {
    ring(accelerator& near, std::size_t bytes, bool is_shared);
    std::optional<pinned_pages> shared;
    pinned_buffer own;  // unless `shared`
    std::byte* data;
    region registered;
    staging_ring slots;
  };
  const std::size_t capacity_bytes_;
  const std::function<region(mutable_view)> register_;
  bool is_shared_ = false;
  std::array<std::optional<ring>, vendors.size()> rings_;
};

}  // namespace tandem::devices
