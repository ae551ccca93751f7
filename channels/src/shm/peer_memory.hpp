#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "shm/memory.hpp"

namespace tandem::shm {

/// Reads another process' memory in one copy (process_vm_readv), where the kernel allows it: same
/// user, no stricter Yama scope, no seccomp filter against it, a pid that means the same to both.
class peer_memory {
 public:
  /// @param pid  0: it has no name here.
  explicit peer_memory(pid_t pid) noexcept : pid_(pid) {}

  /// Tells the other end how to find out whether it can read here. Where Yama lets only parents
  /// look, it is asked to let others of this user as well (PR_SET_PTRACER_ANY).
  static void introduce(end_words& mine);
  /// Do the words of the other end stand where it says? Reading another process by mistake, with a
  /// pid of another namespace, would be noticed here.
  bool can_read(const end_words& theirs) const noexcept;
  /// @pre `can_read`. Is one copy by the kernel, made by one end alone, faster than two that both
  /// ends make at once? Measured with 64 KiB; some 50 us.
  bool is_worth_reading(const end_words& theirs) const;

  /// All of it, or the error number.
  int read(std::byte* to, std::uint64_t address, std::size_t bytes) const noexcept;

 private:
  const pid_t pid_;
};

}  // namespace tandem::shm
