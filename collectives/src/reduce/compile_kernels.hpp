#pragma once

#include <string>
#include <tandem/memory.hpp>

namespace tandem::detail {

/// Compiles a kernel source for an accelerator of that kind and architecture, or loads what it was
/// compiled to from the user's cache. @par Cost  a second or two; from the cache a millisecond.
/// @par Errors thrown: `errc::device_failed`: there is no compiler, or it fails, with its log.
std::string compile_kernels(const std::string& source, memory_kind kind,
                            const std::string& architecture);

}  // namespace tandem::detail
