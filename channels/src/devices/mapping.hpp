#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <tandem/accelerator.hpp>

namespace tandem::devices {

/// Another process' allocation, mapped for copies of one device here. Those that `map_shared` and
/// `map_pages` return are closed behind their last user, not while streams wait for other ranks
/// (`deferred_calls`).
class mapping {
 public:
  mapping(accelerator& on, const accelerator::handle& shared) : on_(on), base_(on.open(shared)) {}
  mapping(accelerator& on, std::span<const accelerator::pages> all)
      : on_(on), base_(on.map_pages(all)), page_bytes_(total_bytes(all)) {}
  ~mapping() {
    if (page_bytes_ > 0) {
      on_.unmap_pages(base_, page_bytes_);
    } else {
      on_.close(base_);
    }
  }
  mapping(const mapping&) = delete;
  mapping& operator=(const mapping&) = delete;

  const std::byte* base() const noexcept { return static_cast<const std::byte*>(base_); }
  /// Lets another device access it. @pre of pages
  void let_access(accelerator& other) const { other.access_pages(base_, page_bytes_); }

 private:
  static std::size_t total_bytes(std::span<const accelerator::pages> all) noexcept {
    std::size_t bytes = 0;
    for (const accelerator::pages& each : all) bytes += each.bytes;
    return bytes;
  }

  accelerator& on_;
  void* const base_;
  const std::size_t page_bytes_ = 0;  ///< 0: it has an IPC handle
};

/// Maps an allocation, or returns the mapping of another channel of this process: drivers refuse to
/// open an allocation twice. Any thread. @par Errors thrown: `device_failed`.
std::shared_ptr<const mapping> map_shared(accelerator& on, const accelerator::handle& shared);
/// The same of pages, which can be mapped any number of times.
std::shared_ptr<const mapping> map_pages(accelerator& on, std::span<const accelerator::pages> all);

}  // namespace tandem::devices
