#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tandem/error.hpp>

#include "shm/descriptor.hpp"

namespace tandem::shm {

/// Memory without a name, whose size nobody can change any more: pages cannot be taken away from
/// under who has mapped it. Closed, with errno, where the kernel gives none. @param name  for /proc
descriptor make_sealed_file(const char* name, std::size_t bytes) noexcept;

/// Its length in bytes; -1 where it is no such memory.
long long sealed_bytes(const descriptor& of) noexcept;

/// `errc::limit_exceeded`, by the errno of what could not be made or mapped: which resource is
/// lacking, and its limit.
error no_shared_memory(std::uint64_t bytes, int code);

/// What the system calls an errno.
std::string system_word(int code);

}  // namespace tandem::shm
