#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <tandem/error.hpp>

namespace tandem::verbs {

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

/// How many bytes a process may lock into memory (RLIMIT_MEMLOCK). What is registered with a device
/// counts, of all devices together.
struct memlock_limit {
  std::uint64_t soft_bytes = unlimited;  ///< what holds
  std::uint64_t hard_bytes = unlimited;  ///< how far the process itself may raise it
};

/// That of this process.
memlock_limit read_memlock() noexcept;

/// The error of a registration that failed: `errc::limit_exceeded` for ENOMEM and EAGAIN, with the
/// limit, what it should be at least and how to raise it where it is too low for `wanted_bytes`
/// beside the `registered_bytes` that were there; else `errc::unsupported_memory`.
error registration_error(std::string_view device, std::uint64_t wanted_bytes,
                         std::uint64_t registered_bytes, int failure, const memlock_limit& limit);

}  // namespace tandem::verbs
