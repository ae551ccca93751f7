#pragma once

#include <atomic>
#include <chrono>
#include <thread>

namespace tandem::detail {

/// A mutex for locks that hardly ever wait: taking it is one atomic operation and giving it up a
/// store, without a call, 9 ns instead of the 20 of `std::mutex`
/// (bench/results/nccl_calls-attempts-2026-12-01T0335Z.txt). Who waits for it polls, after some
/// attempts every 50 us, so that a holder may also keep it for long. Not recursive.
class polled_mutex {
 public:
  polled_mutex() = default;
  polled_mutex(const polled_mutex&) = delete;
  polled_mutex& operator=(const polled_mutex&) = delete;

  bool try_lock() noexcept { return !is_held_.exchange(true, std::memory_order_acquire); }
  void lock() noexcept {
    if (!try_lock()) poll(std::chrono::steady_clock::time_point::max());
  }
  template <class Rep, class Period>
  bool try_lock_for(const std::chrono::duration<Rep, Period>& limit) noexcept {
    return try_lock() || poll(std::chrono::steady_clock::now() + limit);
  }
  void unlock() noexcept { is_held_.store(false, std::memory_order_release); }

 private:
  [[gnu::noinline, gnu::cold]] bool poll(std::chrono::steady_clock::time_point until) noexcept {
    constexpr int short_waits = 100;
    constexpr std::chrono::microseconds interval{50};
    for (int waits = 0; !try_lock(); ++waits) {
      if (waits < short_waits) {
        std::this_thread::yield();
      } else if (std::chrono::steady_clock::now() >= until) {
        return false;
      } else {
        std::this_thread::sleep_for(interval);
      }
    }
    return true;
  }

  std::atomic<bool> is_held_{false};
};

}  // namespace tandem::detail
