#pragma once

#include <cstdint>
#include <span>
#include <tandem/detail/owned_descriptor.hpp>
#include <vector>

namespace tandem::shm {

/// A process of this host, for others that copy its descriptors: its number and when it started,
/// which differs for that number in another PID namespace, or later.
struct process_number {
  std::uint32_t number = 0;
  std::uint64_t started = 0;  ///< clock ticks since the boot; 0: unknown

  static process_number here();
};

/// Copies descriptors of another process (pidfd_getfd, Linux 5.6), which the kernel allows for
/// those of the same user that may be traced.
/// @par Errors thrown: `errc::unsupported_memory`, with the kernel's reason
std::vector<detail::owned_descriptor> copy_descriptors(const process_number& of,
                                                       std::span<const std::uint32_t> which);

}  // namespace tandem::shm
