#pragma once

#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/detail/duration_text.hpp>

namespace tandem::detail {

/// The call of a driver's initialisation that runs now, for the error if it does not return.
using opening_step = std::atomic<const char*>;

/// A vendor's library that is opened once, on first use. Loading and initialising it may never
/// return where a driver hangs, so that it happens on a thread of its own, with a deadline.
/// `Opened` is constructed with the step and has a member `why`, empty where it is available.
/// Instances are never destroyed: that thread may outlive static objects.
template <class Opened>
class opening {
 public:
  /// Null: not available, and why. Waits at most `driver_timeout` for the first call; later ones
  /// find what has come since. @param name  "CUDA"
  template <class... Arguments>
  const Opened* get(const char* name, std::string& why, const Arguments&... arguments) {
    const std::lock_guard only_one(first_);
    if (!has_begun_) {
      limit_ = driver_timeout();
      run_within(limit_, [this, arguments...] {
        auto made = std::make_unique<Opened>(step_, arguments...);
        const std::lock_guard lock(mutex_);
        opened_ = std::move(made);
      });
      has_begun_ = true;
    }
    const std::lock_guard lock(mutex_);
    if (opened_ == nullptr) {
      why = fmt::format("no {} here: {} has not returned within {}; does its driver hang (dmesg)?",
                        name, step_.load(), to_text(limit_));
      return nullptr;
    }
    why = opened_->why;
    return why.empty() ? opened_.get() : nullptr;
  }

 private:
  std::mutex first_;
  bool has_begun_ = false;
  std::chrono::milliseconds limit_{};
  opening_step step_{"loading its library"};
  std::mutex mutex_;
  std::unique_ptr<const Opened> opened_;
};

}  // namespace tandem::detail
