#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>

namespace tandem::verbs {

/// Number of libibverbs objects that this process has now: what remains after all lanes are closed
/// has leaked. Thread-safe.
struct object_counts {
  std::size_t contexts = 0, domains = 0, regions = 0, channels = 0, queues = 0, pairs = 0;

  static object_counts take() noexcept;
  template <class Object>
  static std::atomic<std::size_t>& of() noexcept {
    static std::atomic<std::size_t> count{0};
    return count;
  }
  friend bool operator==(const object_counts&, const object_counts&) = default;
};

inline object_counts object_counts::take() noexcept {
  return {of<ibv_context>(),      of<ibv_pd>(), of<ibv_mr>(),
          of<ibv_comp_channel>(), of<ibv_cq>(), of<ibv_qp>()};
}

}  // namespace tandem::verbs
