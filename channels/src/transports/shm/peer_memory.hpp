#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transports/shm/memory.hpp"

namespace tandem::shm {

/// Reads another process' memory in one copy (process_vm_readv), where the kernel allows it: same
/// user, no stricter Yama scope, no seccomp filter against it, a pid that means the same to both.
class peer_memory {
 public:
  /// @param pid  0: the peer has no pid in this namespace.
  explicit peer_memory(pid_t pid) noexcept : pid_(pid) {}

  /// Publishes a nonce and its address, by which the other end finds out whether it can read here.
  /// Where Yama restricts ptrace to parents, allows any process of this user (PR_SET_PTRACER_ANY).
  static void publish_probe(control_block& local);
  /// Whether the peer's nonce is at the address that it published. Detects a pid of another
  /// namespace, which would name the wrong process.
  bool can_read(const control_block& remote) const noexcept;
  /// Whether one copy by the kernel, made by one end alone, is faster than two that both ends make
  /// at the same time. @pre `can_read`. @par Cost  some 50 us: measured with 64 KiB.
  bool is_worth_reading(const control_block& remote) const;

  /// Reads all `bytes`. @return 0, or the errno
  int read(std::byte* to, std::uint64_t address, std::size_t bytes) const noexcept;

 private:
  const pid_t pid_;
};

}  // namespace tandem::shm
