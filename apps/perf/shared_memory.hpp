#pragma once

#include <cstddef>
#include <memory>

namespace tandem::perf {

/// A `memory_source` of shared buffers, which peers of this host map.
/// @par Errors thrown: `limit_exceeded`.
std::shared_ptr<std::byte> shared_memory(std::size_t bytes);

}  // namespace tandem::perf
