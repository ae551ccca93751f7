#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tandem/error.hpp>

#include "shm/descriptor.hpp"

namespace tandem::shm {

/// Anonymous memory (memfd) of sealed size: it cannot be truncated while it is mapped. A
/// closed descriptor, with errno, where the kernel has no memory. @param name  shown in /proc
descriptor make_sealed_file(const char* name, std::size_t bytes) noexcept;

/// Length in bytes; -1 where the descriptor is not such memory.
long long sealed_bytes(const descriptor& of) noexcept;

/// `errc::limit_exceeded` for an errno of creating or mapping memory: which resource is exhausted,
/// and its limit.
error no_shared_memory(std::uint64_t bytes, int code);

/// The system's text for an errno.
std::string system_word(int code);

}  // namespace tandem::shm
