#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <tandem/channels.hpp>
#include <utility>

#include "shared_memory/shared_pages.hpp"

namespace tandem::shm {
namespace {

/// All shared buffers of this process, by start address.
struct buffer_table {
  std::atomic<bool> has_any = false;  // ever: without shared buffers, look-ups cost one load
  std::mutex mutex;
  std::map<std::uintptr_t, std::shared_ptr<const shared_pages>> all;
};

/// Never destroyed: channels may outlive static objects.
buffer_table& table() {
  static auto& one = *new buffer_table;
  return one;
}

std::uintptr_t number(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address);
}

}  // namespace

shared_buffer::shared_buffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  pages_ = std::make_shared<const shared_pages>("tandem-buffer", bytes, detail::inherited_as::copy);
  buffer_table& known = table();
  const std::lock_guard lock(known.mutex);
  known.all.emplace(number(pages_->data()), pages_);
  known.has_any.store(true, std::memory_order_relaxed);
}

shared_buffer::shared_buffer(shared_buffer&& other) noexcept
    : pages_(std::move(other.pages_)), bytes_(std::exchange(other.bytes_, 0)) {}

shared_buffer& shared_buffer::operator=(shared_buffer&& other) noexcept {
  std::swap(pages_, other.pages_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

/// Frees the pages even if peers have them mapped: they unmap it with the next offer.
shared_buffer::~shared_buffer() {
  if (!pages_) return;
  {
    buffer_table& known = table();
    const std::lock_guard lock(known.mutex);
    known.all.erase(number(pages_->data()));
  }
  pages_->discard();
}

std::byte* shared_buffer::data() const noexcept {
  return pages_ ? pages_->data() : nullptr;
}

std::shared_ptr<const shared_pages> find_shared_pages(const void* data, std::size_t bytes) {
  buffer_table& known = table();
  if (!known.has_any.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock(known.mutex);
  auto after = known.all.upper_bound(number(data));
  if (after == known.all.begin()) return nullptr;
  const std::shared_ptr<const shared_pages>& found = std::prev(after)->second;
  const std::uintptr_t offset = number(data) - number(found->data());
  const bool is_inside = offset <= found->size() && bytes <= found->size() - offset;
  return is_inside ? found : nullptr;
}

}  // namespace tandem::shm
