#pragma once

#include <cstddef>
#include <cstdint>

#include "shm/mapping.hpp"

namespace tandem::shm {

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

  /// Zeros. @param name  for /proc. @par Errors thrown: `limit_exceeded` where the kernel gives
  /// none.
  /// @param how  a child of fork() finds its bytes.
  shared_pages(const char* name, std::size_t bytes,
               detail::inherited_as how = detail::inherited_as::zeros);
  /// A peer's. @par Errors thrown: `unsupported_memory`: what is there is no such memory, or may
  /// not be opened (another user, another container).
  explicit shared_pages(const place& of, faults when = faults::at_once);
  ~shared_pages();
  shared_pages(const shared_pages&) = delete;
  shared_pages& operator=(const shared_pages&) = delete;

  std::byte* data() const noexcept { return base_; }
  std::size_t size() const noexcept { return bytes_; }
  /// @pre made here.
  place where() const noexcept;
  /// Gives the memory back, whoever still maps it: all of it is zeros from here on. @pre made here.
  void discard() const noexcept;

 private:
  void map(faults when, detail::inherited_as how);

  const detail::process_origin origin_;
  descriptor file_;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tandem::shm
