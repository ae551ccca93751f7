#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "devices/imports.hpp"
#include "devices/pinned_pages.hpp"

namespace tandem::devices {

/// Allocation ids that name a link's staging, one for each vendor.
constexpr std::uint32_t first_staging_id = 0xfffe;
static_assert(first_staging_id > max_shared_allocations);
constexpr std::uint32_t staging_id(memory_kind vendor) noexcept {
  return first_staging_id + static_cast<std::uint32_t>(vendor_index(vendor));
}
constexpr bool is_staging(std::uint32_t id) noexcept {
  return id >= first_staging_id && id - first_staging_id < vendors.size();
}

/// Encodes the location of staging as the description of an allocation, and back.
shared_allocation describe_staging(std::uint32_t id, const shared_pages::location& where);
shared_pages::location staging_location(const shared_allocation& described) noexcept;

/// A peer's staging, mapped here: the peer's copy engine writes it and one here reads it, without a
/// copy by a processor. Pinned for each vendor here with the first read.
class peer_staging {
 public:
  /// @param bytes  capacity of each vendor's staging, which both ends know
  explicit peer_staging(std::size_t bytes) : bytes_(bytes) {}

  /// False: protocol violation, described by `why`. @pre is_staging(what.id)
  bool describe(const shared_allocation& what, std::string& why);
  /// The answer to a description, opened for `default_device`.
  bool next(accelerator& default_device, imports::answer& into);
  bool has_unanswered() const noexcept;
  /// As `imports::find`; the source has `host_address`, too.
  std::optional<imports::source> find(const shared_location& at, std::uint64_t bytes,
                                      accelerator& by, std::string& why);

 private:
  struct entry {
    shared_allocation what;
    bool is_answered = false;
    std::shared_ptr<const shared_pages> pages;
    std::array<std::shared_ptr<const pinned_pages>, vendors.size()> pinned;  // by vendor
  };
  const std::shared_ptr<const pinned_pages>& pin(entry& of, accelerator& by);

  const std::size_t bytes_;
  std::array<std::optional<entry>, vendors.size()> entries_;  // by id
};

}  // namespace tandem::devices
