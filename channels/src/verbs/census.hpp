#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>

namespace tandem::verbs {

/// How many things this process has of libibverbs now: what is left when all lanes are gone was
/// lost. Any thread.
struct census {
  std::size_t contexts = 0, domains = 0, regions = 0, channels = 0, queues = 0, pairs = 0;

  static census take() noexcept;
  template <class Thing>
  static std::atomic<std::size_t>& of() noexcept {
    static std::atomic<std::size_t> count{0};
    return count;
  }
  friend bool operator==(const census&, const census&) = default;
};

inline census census::take() noexcept {
  return {of<ibv_context>(),      of<ibv_pd>(), of<ibv_mr>(),
          of<ibv_comp_channel>(), of<ibv_cq>(), of<ibv_qp>()};
}

}  // namespace tandem::verbs
