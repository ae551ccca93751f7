// Private: shared by the engine and the modules built on it, not part of the public interface.
#pragma once

#include <atomic>
#include <cstdint>

namespace tandem::detail {

/// Orders all earlier stores before all later loads.
inline void full_fence() noexcept {
#ifdef __SANITIZE_THREAD__
  // ThreadSanitizer does not support fences.
  static std::atomic<int> all{0};
  all.fetch_add(0, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// Acquire load of a word of pinned memory that a device writes: its earlier writes are visible.
inline std::uint32_t load(std::uint32_t& word) noexcept {
  return std::atomic_ref(word).load(std::memory_order_acquire);
}

}  // namespace tandem::detail
