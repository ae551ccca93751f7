#pragma once

#include <tandem/detail/ibverbs.hpp>
#include <utility>

#include "verbs/census.hpp"

namespace tandem::verbs {

/// Owner of a libibverbs object, which it releases by the matching function.
template <class Thing, int (*detail::ibverbs::*Release)(Thing*)>
class owned {
 public:
  owned() = default;
  owned(const detail::ibverbs& by, Thing* what) noexcept : by_(&by), what_(what) {
    if (what != nullptr) ++census::of<Thing>();
  }
  ~owned() { reset(); }
  owned(owned&& other) noexcept : by_(other.by_), what_(std::exchange(other.what_, nullptr)) {}
  owned& operator=(owned&& other) noexcept {
    reset();
    by_ = other.by_;
    what_ = std::exchange(other.what_, nullptr);
    return *this;
  }
  void reset() noexcept {
    if (what_ == nullptr) return;
    // An object whose release fails stays counted.
    if ((by_->*Release)(std::exchange(what_, nullptr)) == 0) --census::of<Thing>();
  }
  Thing* get() const noexcept { return what_; }
  Thing* operator->() const noexcept { return what_; }
  explicit operator bool() const noexcept { return what_ != nullptr; }

 private:
  const detail::ibverbs* by_ = nullptr;
  Thing* what_ = nullptr;
};

using owned_context = owned<ibv_context, &detail::ibverbs::close_device>;
using owned_pd = owned<ibv_pd, &detail::ibverbs::dealloc_pd>;
using owned_mr = owned<ibv_mr, &detail::ibverbs::dereg_mr>;
using owned_channel = owned<ibv_comp_channel, &detail::ibverbs::destroy_comp_channel>;
using owned_cq = owned<ibv_cq, &detail::ibverbs::destroy_cq>;
using owned_qp = owned<ibv_qp, &detail::ibverbs::destroy_qp>;

}  // namespace tandem::verbs
