#pragma once

#include <array>
#include <functional>
#include <optional>
#include <tandem/accelerator.hpp>
#include <tandem/region.hpp>

#include "devices/pinned_pages.hpp"
#include "devices/sharing.hpp"
#include "devices/staging_ring.hpp"

namespace tandem::devices {

/// Pinned memory that one link's messages pass through, one way. Allocated when first needed, near
/// the device that needs it first; a ring for each vendor, as another's engines do not reach it.
class staging {
 public:
  /// @param reached  has NICs reach what is allocated, where there are some
  staging(std::size_t capacity_bytes, std::function<region(mutable_view)> reached)
      : capacity_bytes_(capacity_bytes), reached_(std::move(reached)) {}

  /// What is allocated from here on the peer may share, where the kernel and the driver allow it.
  void share() noexcept { is_shared_ = true; }
  std::size_t capacity_bytes() const noexcept { return capacity_bytes_; }
  /// Where the peer finds a vendor's ring; nothing: it cannot, or there is none.
  std::optional<shared_pages::place> shared_at(memory_kind kind) const noexcept;
  /// @pre from `take`
  std::uint64_t offset_of(memory_kind kind, const std::byte* which) const noexcept;

  /// Null while there is no room. @pre bytes <= a quarter of the capacity.
  /// @par Errors thrown: `device_failed` where the memory cannot be had.
  std::byte* take(accelerator& for_, std::size_t bytes);
  void give_back(memory_kind kind, const std::byte* which) noexcept;

 private:
  struct ring {
    ring(accelerator& near, std::size_t bytes, bool is_shared);
    std::optional<pinned_pages> shared;
    pinned_buffer own;  // where they are not shared
    std::byte* data;
    region reached;
    staging_ring places;
  };
  const std::size_t capacity_bytes_;
  const std::function<region(mutable_view)> reached_;
  bool is_shared_ = false;
  std::array<std::optional<ring>, vendors.size()> rings_;
};

}  // namespace tandem::devices
