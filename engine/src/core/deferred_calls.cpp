#include <chrono>
#include <limits>
#include <string>
#include <tandem/detail/blocking_call.hpp>
#include <tandem/detail/deferred_calls.hpp>
#include <tandem/log.hpp>
#include <utility>

namespace tandem::detail {
namespace {

/// For a call that begins while there are no operations on streams.
constexpr std::chrono::milliseconds call_limit{100};
/// Added to the number of operations while a call is made.
constexpr int being_made = std::numeric_limits<int>::min() / 2;

}  // namespace

/// Never destroyed: its thread may wait for ever.
deferred_calls& deferred_calls::of_process() {
  static deferred_calls& only = *new deferred_calls;
  return only;
}

void deferred_calls::count_streams(int change) noexcept {
  if (change > 0 && !were_any_.load(std::memory_order_relaxed)) were_any_ = true;
  const int now = streams_.fetch_add(change) + change;
  if (change > 0 && now < 0) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return streams_.load() > 0; });
  } else if (now == 0 && has_pending_.load()) {
    // With the lock, which the thread has between its look at the number and its wait.
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
}

bool deferred_calls::begin() noexcept {
  int none = 0;
  return streams_.compare_exchange_strong(none, being_made);
}

void deferred_calls::make_now(const std::function<void()>& call) {
  call();
  const std::lock_guard lock(mutex_);
  streams_ -= being_made;
  changed_.notify_all();
}

void deferred_calls::make(std::function<void()> call) {
  if (!were_any_.load()) return call();
  if (!begin()) return defer(std::move(call));
  try {
    run_within(call_limit, [this, call] { make_now(call); });
  } catch (const error&) {
    make_now(call);  // no thread can be started
  }
}

void deferred_calls::defer(std::function<void()> call) {
  try {
    const std::lock_guard lock(mutex_);
    if (pending_.empty()) {
      run_detached("to close memory of other processes", [this] { run(); });
    }
    pending_.push_back(std::move(call));
    has_pending_ = true;
  } catch (const error& why) {
    log(log_level::warning, "devices",
        std::string("memory of another process stays open: ") + why.what());
  }
}

void deferred_calls::run() {
  std::unique_lock lock(mutex_);
  while (!pending_.empty()) {
    changed_.wait(lock, [this] { return begin(); });
    const std::function<void()> next = std::move(pending_.front());
    lock.unlock();
    make_now(next);
    lock.lock();
    pending_.pop_front();
  }
  has_pending_ = false;
}

}  // namespace tandem::detail
