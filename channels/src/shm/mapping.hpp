#pragma once

#include <cstddef>
#include <cstdint>

#include "shm/descriptor.hpp"

namespace tandem::shm {

/// When the kernel brings the pages of a mapping; at once, in huge pages as far as it has them.
enum class faults : std::uint8_t { at_once, when_touched };

/// Maps all of a file, to be read and written, so that huge pages of it can be mapped as such: they
/// are filled and copied faster, and a peer that maps 64 MiB takes 32 faults instead of 16,384.
/// Null where the kernel does not, or has no memory for it, with its reason in `errno`.
std::byte* map_file(const descriptor& file, std::size_t bytes, faults when) noexcept;

}  // namespace tandem::shm
