#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "shared_memory/sealed_file.hpp"

namespace tandem::shm {

/// Memory that processes of one host share. It is anonymous (memfd): its owner holds the
/// descriptor, others open it by number (/proc/PID/fd/N), and the kernel frees it when all have
/// closed or died. Its size is sealed, so no process can truncate it while another has it mapped.
class shared_pages {
 public:
  /// Where another process opens it; the inode verifies that it is this memory.
  struct location {
    std::uint32_t process = 0;
    std::uint32_t descriptor = 0;
    std::uint64_t inode = 0;
    std::uint64_t bytes = 0;
  };

  /// Creates zeroed memory. @par Errors thrown: `limit_exceeded` where the kernel has none.
  /// @param name  shown in /proc
  /// @param how   what a child of fork() finds in its place
  shared_pages(const char* name, std::size_t bytes,
               detail::inherited_as how = detail::inherited_as::zeros);
  /// Maps a peer's. @par Errors thrown: `unsupported_memory`: the descriptor is not this memory, or
  /// may not be opened (another user, another container); `limit_exceeded`.
  explicit shared_pages(const location& of, population when = population::eager);
  ~shared_pages();
  shared_pages(const shared_pages&) = delete;
  shared_pages& operator=(const shared_pages&) = delete;

  std::byte* data() const noexcept { return base_; }
  std::size_t size() const noexcept { return bytes_; }
  /// @pre created here, and `close_descriptor` not called
  location where() const noexcept;
  /// Closes the descriptor: no other process can open it from here on.
  void close_descriptor() noexcept { file_ = descriptor(); }
  /// Frees the pages, also where others have them mapped: they read zeros from here on.
  /// @pre As `where`.
  void discard() const noexcept;

 private:
  void map(population when, detail::inherited_as how);

  const detail::process_origin origin_;
  descriptor file_;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

/// The pages of the `shared_buffer` of this process that contains all of these bytes; null where
/// there is none. Any thread. @par Cost  a map look-up under a mutex.
std::shared_ptr<const shared_pages> find_shared_pages(const void* data, std::size_t bytes);

}  // namespace tandem::shm
