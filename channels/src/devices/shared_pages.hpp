#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tandem/accelerator.hpp>

#include "shm/descriptor.hpp"

namespace tandem::devices {

/// Memory that processes of one host share. It has no name: it lives in a descriptor of the one
/// that made it, which the other finds by number (/proc/PID/fd/N), and the kernel frees it when
/// both have let go, whatever they die of. Its size is sealed, so that no end can take pages away
/// from under the other.
class shared_pages {
 public:
  /// Where another process finds it, which proves by the inode that it is this.
  struct place {
    std::uint32_t process = 0;
    std::uint32_t descriptor = 0;
    std::uint64_t inode = 0;
    std::uint64_t bytes = 0;
  };

  /// Zeros. @par Errors thrown: `limit_exceeded` where the kernel gives none.
  explicit shared_pages(std::size_t bytes);
  /// A peer's. @par Errors thrown: `unsupported_memory`: what is there is no such memory, or may
  /// not be opened (another user, another container).
  explicit shared_pages(const place& of);
  ~shared_pages();
  shared_pages(const shared_pages&) = delete;
  shared_pages& operator=(const shared_pages&) = delete;

  std::byte* data() const noexcept { return base_; }
  std::size_t size() const noexcept { return bytes_; }
  /// @pre made here.
  place where() const noexcept;

 private:
  void map();

  shm::descriptor file_;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Shared pages that copy engines of one vendor reach without a detour.
class pinned_pages {
 public:
  /// @par Errors thrown: `device_failed`.
  pinned_pages(accelerator& of, std::shared_ptr<const shared_pages> pages);
  ~pinned_pages();
  pinned_pages(const pinned_pages&) = delete;
  pinned_pages& operator=(const pinned_pages&) = delete;

  /// As processors know it, and as streams do.
  std::byte* here() const noexcept { return pages_->data(); }
  std::byte* there() const noexcept { return there_; }
  const shared_pages& pages() const noexcept { return *pages_; }

 private:
  accelerator& of_;
  const std::shared_ptr<const shared_pages> pages_;
  std::byte* there_ = nullptr;
};

}  // namespace tandem::devices
