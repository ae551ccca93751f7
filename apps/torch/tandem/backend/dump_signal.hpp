#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "errors.hpp"

namespace tandem::torch_backend {

/// Notifies all ranks of a job through its store that one of them has failed, so that also those
/// dump that are busy elsewhere: they are what the others have waited for. A thread looks from time
/// to time, as that of ProcessGroupNCCL does.
class dump_signal {
 public:
  dump_signal(c10::intrusive_ptr<c10d::Store> store, milliseconds interval,
              std::function<void()> when_notified)
      : state_(std::make_shared<state>(std::move(store), interval, std::move(when_notified))) {
    std::thread([of = state_] { of->watch(); }).detach();
  }
  dump_signal(const dump_signal&) = delete;
  dump_signal& operator=(const dump_signal&) = delete;
  /// Not without a limit: the caller may hold Python's lock, for which a dump waits.
  ~dump_signal() {
    std::unique_lock lock(state_->mutex);
    state_->is_stopped = true;
    state_->changed.notify_all();
    state_->changed.wait_for(lock, std::chrono::seconds(2), [&] { return state_->is_over; });
  }
  void send() { state_->store->set(key, std::string("1")); }

 private:
  static constexpr const char* key = "tandem_flight_recorder";

  struct state {
    state(c10::intrusive_ptr<c10d::Store> through, milliseconds each, std::function<void()> call)
        : store(std::move(through)), interval(each), when_notified(std::move(call)) {}

    void watch() {
      std::unique_lock lock(mutex);
      while (!changed.wait_for(lock, interval, [&] { return is_stopped; })) {
        lock.unlock();
        const bool is_notified = look();
        lock.lock();
        if (is_notified) break;
      }
      is_over = true;
      changed.notify_all();
    }
    /// @returns whether there is nothing to be looked for any more
    bool look() {
      try {
        if (!store->check({key})) return false;
        when_notified();
      } catch (const std::exception&) {
        // The store is gone with its rank, as at the end of a job.
      }
      return true;
    }

    const c10::intrusive_ptr<c10d::Store> store;
    const milliseconds interval;
    const std::function<void()> when_notified;
    std::mutex mutex;
    std::condition_variable changed;
    bool is_stopped = false;
    bool is_over = false;
  };

  const std::shared_ptr<state> state_;
};

}  // namespace tandem::torch_backend
