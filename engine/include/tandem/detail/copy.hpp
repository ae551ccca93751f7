// Not for users: what the engine and the rooms on it share.
#pragma once

#include <cstddef>

namespace tandem::detail {

/// From so many bytes on a copy goes past the caches: it would push out of them what it does not
/// fit into itself, and read every line that it is to write. Of a core's share of a last level
/// cache some 2 to 4 MiB, of most programs much less, is to be had. Measured on two cores of an AMD
/// EPYC under a hypervisor, which tells the C library of a cache of 320 MiB, so that `memcpy` never
/// does this itself, in GB/s through the caches and past them: 18 and 36 (8 MiB), 11 and 18 (16
/// MiB), 9.6 and 14.5 (64 MiB).
inline constexpr std::size_t streamed_bytes = std::size_t{8} << 20;

/// `memcpy` of a part of `whole_bytes` that are all copied about now: what is long as a whole goes
/// past the caches, however short its parts. The bytes are there for other threads as after a
/// `memcpy`.
void copy_part(void* to, const void* from, std::size_t bytes, std::size_t whole_bytes) noexcept;

}  // namespace tandem::detail
