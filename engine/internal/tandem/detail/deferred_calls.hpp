// Calls of a driver that may wait for all streams of a device.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

#pragma GCC visibility push(default)

namespace tandem::detail {

/// Calls of a driver that wait for all streams of a device: CUDA's cuIpcCloseMemHandle does (two
/// H200, driver 580), and it is not said of which others. A stream may wait for another rank, and
/// that rank for the loop of this one, which must not make such a call then: it is made later.
///
/// Once operations on streams were counted, calls are made on threads of their own, when there are
/// none in progress. One that begins meanwhile may hold up such a thread, but not the loop.
/// @par Executor  any thread. One object a process; it is not used in a forked child.
class deferred_calls {
 public:
  static deferred_calls& of_process();

  /// Operations on streams, which may wait for other ranks: +1, -1.
  void count_streams(int change) noexcept;
  /// At once, on this thread if none was ever counted, and then for at most 100 ms; or later.
  /// `call` owns all that it uses.
  void make(std::function<void()> call);
  /// Whether there are any that are not made yet.
  bool has_pending() const noexcept { return has_pending_.load(); }

 private:
  deferred_calls() = default;

  void defer(std::function<void()> call);
  void run();

  std::atomic<int> streams_{0};
  std::atomic<bool> were_any_{false};
  std::atomic<bool> has_pending_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> pending_;  ///< the first one is being made
};

}  // namespace tandem::detail

#pragma GCC visibility pop
