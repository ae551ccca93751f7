#include "progress.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <exception>
#include <tandem/detail/resources.hpp>
#include <utility>

namespace tandem::c {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// How often the progress thread looks whether a caller has left the loop with operations in
/// progress. Callers do not wake it, which would cost each of them a system call: a thread that
/// starts an operation usually waits for it soon.
constexpr microseconds min_interval{100};
/// While it finds callers at work it looks less often, since it takes the core from them.
constexpr microseconds max_interval{1600};
/// Without a turn of any caller for so many of the shortest intervals, the progress thread takes
/// the loop and sleeps there.
constexpr int idle_intervals = 50;
/// Of a thread that waits until streams go on.
constexpr microseconds streams_interval{20};
constexpr unsigned long timer_slack_ns = 10'000;

}  // namespace

std::thread start_thread(const char* name, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const std::shared_ptr<void> restore(
      nullptr, [&before](void*) { pthread_sigmask(SIG_SETMASK, &before, nullptr); });
  return detail::start_threads("no thread to carry out operations with", [&] {
    return std::thread([name, body = std::move(body)] {
      pthread_setname_np(pthread_self(), name);
      prctl(PR_SET_TIMERSLACK, timer_slack_ns);
      body();
    });
  });
}

progress& progress::of_process(spin_policy policy) {
  static progress& only = *new progress(policy);
  only.require_here();
  return only;
}

progress::progress(spin_policy policy)
    : work_(asio::make_work_guard(context_)), loop_(context_, policy) {
  progress_thread_ = start_thread("tandem", [this] { run_progress_thread(); });
}

bool progress::try_enter() {
  const std::lock_guard lock(mutex_);
  if (driver_ != driver::none || callers_wanting_ > 0) return false;
  driver_ = driver::caller;
  ++turns_;
  return true;
}

/// Takes the loop, from the progress thread if that has it; false if another caller has it.
bool progress::enter(std::unique_lock<std::mutex>& lock) {
  if (driver_ == driver::progress_thread) {
    ++callers_wanting_;
    ++callers_waiting_;
    context_.stop();
    changed_.wait(lock, [this] { return driver_ != driver::progress_thread; });
    --callers_waiting_;
    --callers_wanting_;
  }
  if (driver_ != driver::none) return false;
  driver_ = driver::caller;
  ++turns_;
  return true;
}

void progress::leave() {
  const std::lock_guard lock(mutex_);
  driver_ = driver::none;
  if (callers_waiting_ > 0) changed_.notify_all();
}

void progress::run_now(const std::function<void()>& what) {
  if (try_enter()) {
    const turn mine(*this);
    return what();
  }
  // Another caller may run the loop until this thread has done something.
  std::atomic<bool> is_over{false};
  std::exception_ptr failure;
  asio::post(context_, [&] {
    try {
      what();
    } catch (...) {
      failure = std::current_exception();
    }
    is_over.store(true, std::memory_order_release);
    notify();
  });
  wait(is_over, time_point::max());
  if (failure) std::rethrow_exception(failure);
}

void progress::wait(const std::atomic<bool>& is_done, time_point limit) {
  while (!is_done.load(std::memory_order_acquire)) {
    std::unique_lock lock(mutex_);
    if (enter(lock)) {
      lock.unlock();
      const turn mine(*this);
      loop_.run_until(is_done, limit);
    } else {
      // `notify` takes the lock, so the flag cannot be set unnoticed in between.
      if (is_done.load(std::memory_order_acquire)) return;
      ++callers_waiting_;
      if (limit == time_point::max()) {
        changed_.wait(lock);
      } else {
        changed_.wait_until(lock, limit);
      }
      --callers_waiting_;
    }
    if (limit != time_point::max() && std::chrono::steady_clock::now() >= limit) return;
  }
}

void progress::poll() {
  if (!try_enter()) return;
  const turn mine(*this);
  loop_.poll();
}

void progress::hand_over() {
  const std::lock_guard lock(mutex_);
  if (driver_ == driver::progress_thread) return;
  is_handed_over_ = true;
  handed_over_.notify_one();
}

device_use& progress::use_of(memory_kind kind, int device) {
  const std::lock_guard lock(uses_mutex_);
  return uses_[{kind, device}];
}

void progress::let_streams_go_on(const device_use& on) {
  while (on.waiting_streams.load() > 0) {
    poll();
    if (on.waiting_streams.load() > 0) std::this_thread::sleep_for(streams_interval);
  }
}

bool progress::no_stream_waits() noexcept {
  const std::lock_guard lock(uses_mutex_);
  return std::ranges::all_of(uses_,
                             [](const auto& each) { return each.second.waiting_streams == 0; });
}

void progress::notify() noexcept {
  const std::lock_guard lock(mutex_);
  if (callers_waiting_ > 0) changed_.notify_all();
}

void progress::run_progress_thread() {
  std::unique_lock lock(mutex_);
  std::uint64_t seen = turns_;
  microseconds interval = min_interval;
  for (int idle = 0;;) {
    handed_over_.wait_for(lock, interval, [this] { return is_handed_over_; });
    const bool is_left = std::exchange(is_handed_over_, false) || turns_ == seen;
    const bool is_vacant = driver_ == driver::none && callers_wanting_ == 0 && is_left;
    idle = is_vacant ? idle + 1 : 0;
    interval = is_vacant ? min_interval : std::min(2 * interval, max_interval);
    seen = turns_;
    if (!is_vacant || (operations_.load() == 0 && idle < idle_intervals)) continue;
    driver_ = driver::progress_thread;
    lock.unlock();
    loop_.run_until(never_);
    lock.lock();
    context_.restart();
    driver_ = driver::none;
    idle = 0;
    changed_.notify_all();
  }
}

void progress::notify_user(std::function<void()> what) {
  const std::lock_guard lock(notifier_mutex_);
  if (!notifier_.joinable()) notifier_ = start_thread("tandem-notify", [this] { run_notifier(); });
  notifications_.push_back(std::move(what));
  notifier_wakes_.notify_one();
}

void progress::run_notifier() {
  std::unique_lock lock(notifier_mutex_);
  for (;;) {
    notifier_wakes_.wait(lock, [this] { return !notifications_.empty(); });
    const std::function<void()> next = std::move(notifications_.front());
    notifications_.pop_front();
    lock.unlock();
    next();
    lock.lock();
  }
}

}  // namespace tandem::c
