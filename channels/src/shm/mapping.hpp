#pragma once

#include <cstddef>
#include <cstdint>
#include <tandem/detail/fork.hpp>

#include "shm/descriptor.hpp"

namespace tandem::shm {

/// When the kernel brings the pages of a mapping; at once, in huge pages as far as it has them.
enum class faults : std::uint8_t { at_once, when_touched };

/// Maps all of a file, to be read and written, so that huge pages of it can be mapped as such: they
/// are filled and copied faster, and a peer that maps 64 MiB takes 32 faults instead of 16,384.
/// Null where the kernel does not, or has no memory for it, with its reason in `errno`.
/// A child of fork() finds memory of its own there.
std::byte* map_file(const descriptor& file, std::size_t bytes, faults when,
                    detail::inherited_as how = detail::inherited_as::zeros) noexcept;
void unmap_file(std::byte* base, std::size_t bytes) noexcept;

}  // namespace tandem::shm
