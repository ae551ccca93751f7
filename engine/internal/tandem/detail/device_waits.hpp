// Private: shared by the engine and the modules built on it, not part of the public interface.
#pragma once

#include <memory>
#include <tandem/accelerator.hpp>
#include <utility>

namespace tandem::detail {

/// An intrusive FIFO list; a wait is in at most one list. Copies share the waits: use only one of
/// them afterwards.
class device_waits {
 public:
  bool empty() const noexcept { return first_ == nullptr; }
  device_wait* front() const noexcept { return first_; }
  void push_back(device_wait& wait) noexcept {
    wait.next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = &wait;
    last_ = &wait;
  }
  /// Null if empty.
  device_wait* pop_front() noexcept {
    device_wait* const wait = first_;
    if (wait != nullptr) first_ = std::exchange(wait->next, nullptr);
    return wait;
  }
  /// Completes each wait once. A callback may start a wait again or destroy the list's owner.
  static void complete_all(device_waits all, const std::shared_ptr<const error>& failure) {
    while (device_wait* const wait = all.pop_front()) wait->done(*wait, failure);
  }
  /// Destroys each wait: the execution context is being destroyed.
  static void destroy(device_waits all) noexcept {
    while (device_wait* const wait = all.pop_front()) {
      if (wait->destroy != nullptr) wait->destroy(*wait);
    }
  }

 private:
  device_wait* first_ = nullptr;
  device_wait* last_ = nullptr;
};

}  // namespace tandem::detail
