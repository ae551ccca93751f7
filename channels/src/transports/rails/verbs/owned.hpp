#pragma once

#include <tandem/detail/ibverbs.hpp>
#include <utility>

#include "transports/rails/verbs/object_counts.hpp"

namespace tandem::verbs {

/// Owner of a libibverbs object, which it releases by the matching function.
template <class Object, int (*detail::ibverbs::*Release)(Object*)>
class owned {
 public:
  owned() = default;
  owned(const detail::ibverbs& by, Object* what) noexcept : by_(&by), object_(what) {
    if (what != nullptr) ++object_counts::of<Object>();
  }
  ~owned() { reset(); }
  owned(owned&& other) noexcept : by_(other.by_), object_(std::exchange(other.object_, nullptr)) {}
  owned& operator=(owned&& other) noexcept {
    reset();
    by_ = other.by_;
    object_ = std::exchange(other.object_, nullptr);
    return *this;
  }
  void reset() noexcept {
    if (object_ == nullptr) return;
    // An object whose release fails stays counted.
    if ((by_->*Release)(std::exchange(object_, nullptr)) == 0) --object_counts::of<Object>();
  }
  Object* get() const noexcept { return object_; }
  Object* operator->() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  const detail::ibverbs* by_ = nullptr;
  Object* object_ = nullptr;
};

using owned_context = owned<ibv_context, &detail::ibverbs::close_device>;
using owned_pd = owned<ibv_pd, &detail::ibverbs::dealloc_pd>;
using owned_mr = owned<ibv_mr, &detail::ibverbs::dereg_mr>;
using owned_channel = owned<ibv_comp_channel, &detail::ibverbs::destroy_comp_channel>;
using owned_cq = owned<ibv_cq, &detail::ibverbs::destroy_cq>;
using owned_qp = owned<ibv_qp, &detail::ibverbs::destroy_qp>;

}  // namespace tandem::verbs
