#pragma once

#include <cstddef>
#include <memory>
#include <tandem/accelerator.hpp>
#include <utility>

#include "shared_memory/shared_pages.hpp"

namespace tandem::devices {

using shm::shared_pages;

/// Shared pages, pinned for the copy engines of one vendor.
class pinned_pages {
 public:
  /// @par Errors thrown: `device_failed`.
  pinned_pages(accelerator& of, std::shared_ptr<const shared_pages> pages)
      : of_(of), pages_(std::move(pages)) {
    of_.pin(pages_->data(), pages_->size());
    try {
      device_address_ = static_cast<std::byte*>(of_.device_pointer(pages_->data()));
    } catch (const error&) {
      of_.unpin(pages_->data());
      throw;
    }
  }
  ~pinned_pages() { of_.unpin(pages_->data()); }
  pinned_pages(const pinned_pages&) = delete;
  pinned_pages& operator=(const pinned_pages&) = delete;

  /// The address for processors, and the one for copies of the device.
  std::byte* host_address() const noexcept { return pages_->data(); }
  std::byte* device_address() const noexcept { return device_address_; }
  const shared_pages& pages() const noexcept { return *pages_; }

 private:
  accelerator& of_;
  const std::shared_ptr<const shared_pages> pages_;
  std::byte* device_address_ = nullptr;
};

}  // namespace tandem::devices
