// Private: shared by the engine and the modules built on it, not part of the public interface.
#pragma once

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <tandem/detail/poller.hpp>
#include <utility>

namespace tandem::detail {

/// Between two looks of a loop that sleeps: doubled each time, so that a long wait costs a
/// hundredth of a core.
class growing_interval {
 public:
  std::chrono::microseconds next() noexcept {
    return std::exchange(next_, std::min(2 * next_, std::chrono::microseconds(320)));
  }

 private:
  std::chrono::microseconds next_{20};
};

/// Looks at memory that a device writes, which wakes no loop: in each round of a loop that polls,
/// and at growing intervals while it sleeps.
/// @par Executor  All calls, and its destruction, on the loop's.
class memory_watch : private pollable {
 protected:
  explicit memory_watch(const asio::any_io_executor& executor);
  ~memory_watch() = default;

  /// It has something to wait for from now on; the intervals begin again.
  void start_watching();

 private:
  /// Whether it found something.
  virtual bool look() = 0;
  virtual bool is_watching() const noexcept = 0;

  bool poll() override { return look(); }
  void arm() override;
  void look_again();

  asio::steady_timer timer_;
  growing_interval interval_;
  bool is_timer_set_ = false;
  const std::shared_ptr<memory_watch*> self_;  ///< a handler of the timer may outlive this
};

}  // namespace tandem::detail
