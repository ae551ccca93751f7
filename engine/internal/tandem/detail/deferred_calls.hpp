// Calls of a driver that may wait for all streams of a device.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#pragma GCC visibility push(default)

namespace tandem::detail {

/// Calls of a driver that wait for all streams of a device, as CUDA's cuIpcCloseMemHandle and
/// cuMemFree do; other threads' copies wait for those (bench/gpu_closing.py: H200, driver 580). A
/// stream may wait for another rank, and that rank for the loop of this one, which must neither
/// make such a call then nor have one made: it is made when no operation is on a stream.
///
/// Once such operations were counted, calls are made on threads of their own. An operation that is
/// to begin meanwhile waits for the end of the call.
/// @par Executor  any thread. One object a process; it is not used in a forked child.
class deferred_calls {
 public:
  static deferred_calls& of_process();

  /// Operations on streams, which may wait for other ranks: +1 before it is queued, -1 behind it.
  void count_streams(int change) noexcept;
  /// At once, on this thread if none was ever counted, and then for at most 100 ms; or later.
  /// `call` owns all that it uses.
  void make(std::function<void()> call);
  /// Destroys, by such a call, what frees memory of a device or unloads a module. (Not when a copy
  /// of the call goes: they share the pointer.)
  template <class Object>
  void destroy(std::shared_ptr<Object> last) {
    make([kept = std::make_shared<std::shared_ptr<Object>>(std::move(last))] { kept->reset(); });
  }
  /// Whether there are any that are not made yet.
  bool has_pending() const noexcept { return has_pending_.load(); }

 private:
  deferred_calls() = default;

  bool begin() noexcept;
  void make_now(const std::function<void()>& call);
  void defer(std::function<void()> call);
  void run();

  std::atomic<int> streams_{0};  ///< operations; negative while a call is made
  std::atomic<bool> were_any_{false};
  std::atomic<bool> has_pending_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> pending_;  ///< the first one is being made
};

}  // namespace tandem::detail

#pragma GCC visibility pop
