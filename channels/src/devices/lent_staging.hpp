#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>

#include "devices/imports.hpp"
#include "devices/pinned_pages.hpp"

namespace tandem::devices {

/// Names of a link's own staging where others name allocations: one for each vendor.
constexpr std::uint32_t first_staging_id = 0xfffe;
static_assert(first_staging_id > most_shared_allocations);
constexpr std::uint32_t staging_id(memory_kind vendor) noexcept {
  return first_staging_id + static_cast<std::uint32_t>(vendor_index(vendor));
}
constexpr bool is_staging(std::uint32_t id) noexcept {
  return id >= first_staging_id && id - first_staging_id < vendors.size();
}

/// Staging as its owner describes it, and where that says it is.
shared_allocation describe_staging(std::uint32_t id, const shared_pages::place& where);
shared_pages::place place_of_staging(const shared_allocation& described) noexcept;

/// A peer's staging that copy engines here read: the peer's engine has written it, and no processor
/// moves a byte. Pinned by each vendor here that reads it, when it first does.
class lent_staging {
 public:
  /// @param bytes  of each, which both ends know
  explicit lent_staging(std::size_t bytes) : bytes_(bytes) {}

  /// False: no correct peer says this; `why` tells what. @pre is_staging(what.id)
  bool describe(const shared_allocation& what, std::string& why);
  /// The answer to a description, opened for `home`.
  bool next(accelerator& home, imports::answer& into);
  bool has_unanswered() const noexcept;
  /// As `imports::find`; the source has `here`, too.
  std::optional<imports::source> find(const shared_place& at, std::uint64_t bytes, accelerator& by,
                                      std::string& why);

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
