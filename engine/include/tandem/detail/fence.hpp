// Not for users: what the engine and the rooms on it share.
#pragma once

#include <atomic>

namespace tandem::detail {

/// What was stored before is visible to everybody before anything is loaded after.
inline void full_fence() noexcept {
#ifdef __SANITIZE_THREAD__
  // ThreadSanitizer knows no fences.
  static std::atomic<int> all{0};
  all.fetch_add(0, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace tandem::detail
