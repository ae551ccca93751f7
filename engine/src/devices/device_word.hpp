#pragma once

#include <atomic>
#include <cstdint>

namespace tandem {

/// Acquire load of a word of pinned memory that a device writes: its earlier writes are visible.
inline std::uint32_t load(std::uint32_t& word) noexcept {
  return std::atomic_ref(word).load(std::memory_order_acquire);
}

}  // namespace tandem
