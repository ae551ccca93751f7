#include "devices/pinned_pages.hpp"

#include <utility>

namespace tandem::devices {

pinned_pages::pinned_pages(accelerator& of, std::shared_ptr<const shared_pages> pages)
    : of_(of), pages_(std::move(pages)) {
  of_.pin(pages_->data(), pages_->size());
  try {
    device_address_ = static_cast<std::byte*>(of_.device_pointer(pages_->data()));
  } catch (const error&) {
    of_.unpin(pages_->data());
    throw;
  }
}

pinned_pages::~pinned_pages() {
  of_.unpin(pages_->data());
}

}  // namespace tandem::devices
