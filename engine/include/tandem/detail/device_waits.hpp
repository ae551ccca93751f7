// Not for users: what the engine and the rooms on it share.
#pragma once

#include <memory>
#include <tandem/device_watch.hpp>
#include <utility>

namespace tandem::detail {

/// A list through the waits' own links, oldest first; a wait is in at most one. Copies name the
/// same waits: one of them goes on.
class device_waits {
 public:
  bool empty() const noexcept { return first_ == nullptr; }
  device_wait* front() const noexcept { return first_; }
  void push_back(device_wait& wait) noexcept {
    wait.next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = &wait;
    last_ = &wait;
  }
  /// Null where there is none.
  device_wait* pop_front() noexcept {
    device_wait* const wait = first_;
    if (wait != nullptr) first_ = std::exchange(wait->next, nullptr);
    return wait;
  }
  /// Each, once. Who is told may wait again, or let go of whoever has this list.
  static void tell(device_waits all, const std::shared_ptr<const error>& failure) {
    while (device_wait* const wait = all.pop_front()) wait->done(*wait, failure);
  }
  /// The executor goes away.
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
