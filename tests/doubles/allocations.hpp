#pragma once

#include <cstdint>
#include <mutex>

namespace tandem::test {

/// How often this thread has called operator new, without what a `not_counted` covers. Counted in
/// programs with the channel suite, but not under sanitizers, which have an operator new of their
/// own.
std::uint64_t allocations() noexcept;

/// What this thread allocates during its lifetime is the test's.
class not_counted {
 public:
  not_counted() noexcept { ++depth(); }
  ~not_counted() { --depth(); }
  not_counted(const not_counted&) = delete;
  not_counted& operator=(const not_counted&) = delete;

  static int& depth() noexcept {
    thread_local int here = 0;
    return here;
  }
};

/// The mutex of a simulated device: what is allocated under it is the simulation's.
class simulation_mutex {
 public:
  void lock() {
    mutex_.lock();
    ++not_counted::depth();
  }
  bool try_lock() {
    const bool locked = mutex_.try_lock();
    if (locked) ++not_counted::depth();
    return locked;
  }
  void unlock() {
    --not_counted::depth();
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
};

}  // namespace tandem::test
