#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <tandem/error.hpp>

namespace tandem::verbs {

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

/// How many bytes a process may lock in memory (RLIMIT_MEMLOCK). Registrations with all devices
/// together count.
struct memlock_limit {
  std::uint64_t soft_bytes = unlimited;  ///< the limit in force
  std::uint64_t hard_bytes = unlimited;  ///< how far the process may raise it
};

/// The limit of this process.
memlock_limit read_memlock() noexcept;

/// The error of a failed registration: `errc::limit_exceeded` for ENOMEM and EAGAIN, with the
/// limit, its minimum value and how to raise it where it is too low for `wanted_bytes` in addition
/// to the `registered_bytes` so far; otherwise `errc::unsupported_memory`.
error registration_error(std::string_view device, std::uint64_t wanted_bytes,
                         std::uint64_t registered_bytes, int failure, const memlock_limit& limit);

}  // namespace tandem::verbs
