#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tandem/detail/fork.hpp>
#include <tandem/detail/owned_descriptor.hpp>
#include <tandem/error.hpp>

namespace tandem::shm {

using descriptor = detail::owned_descriptor;

/// Anonymous memory (memfd) of sealed size: it cannot be truncated while it is mapped. A
/// closed descriptor, with errno, where the kernel has no memory. @param name  shown in /proc
descriptor make_sealed_file(const char* name, std::size_t bytes) noexcept;

/// Length in bytes; -1 where the descriptor is not such memory.
long long sealed_bytes(const descriptor& of) noexcept;

/// `errc::limit_exceeded` for an errno of creating or mapping memory: which resource is exhausted,
/// and its limit.
error no_shared_memory(std::uint64_t bytes, int code);

/// When the pages of a mapping are populated; eagerly, in huge pages as far as there are any.
enum class population : std::uint8_t { eager, on_demand };

/// Maps a whole file for reading and writing, aligned for huge pages: they are filled and copied
/// faster, and a peer that maps 64 MiB takes 32 page faults instead of 16,384. Null with `errno`
/// where the kernel refuses or lacks memory. A child of fork() gets memory of its own there.
std::byte* map_file(const descriptor& file, std::size_t bytes, population when,
                    detail::inherited_as how = detail::inherited_as::zeros) noexcept;
void unmap_file(std::byte* base, std::size_t bytes) noexcept;

}  // namespace tandem::shm
