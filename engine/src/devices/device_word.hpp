#pragma once

#include <atomic>
#include <cstdint>

namespace tandem {

/// A word of pinned memory that a device writes: all that it wrote before is seen with it.
inline std::uint32_t load(std::uint32_t& word) noexcept {
  return std::atomic_ref(word).load(std::memory_order_acquire);
}

}  // namespace tandem
