// Private: shared by the engine and the modules built on it, not part of the public interface.
#pragma once

#include <cstddef>

namespace tandem::detail {

/// Copies of at least this size use non-temporal stores: they would evict the caches without
/// fitting into them, and read every line before writing it. A core's share of a last-level cache
/// is some 2 to 4 MiB, and most programs leave less. Measured on two cores of an AMD EPYC under a
/// hypervisor that reports a cache of 320 MiB, so that `memcpy` never does this itself, in GB/s
/// with normal and with non-temporal stores: 18 and 36 (8 MiB), 11 and 18 (16 MiB), 9.6 and 14.5
/// (64 MiB).
inline constexpr std::size_t streamed_bytes = std::size_t{8} << 20;

/// `memcpy` of a part of a copy of `whole_bytes`, whose size selects the kind of stores, however
/// short the part. Visible to other threads as after a `memcpy`.
void copy_part(void* to, const void* from, std::size_t bytes, std::size_t whole_bytes) noexcept;

}  // namespace tandem::detail
