#pragma once

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <tandem/async.hpp>
#include <tandem/detail/event_loop.hpp>
#include <tandem/detail/fork.hpp>
#include <tandem/memory.hpp>
#include <thread>
#include <utility>

namespace tandem::c {

namespace asio = boost::asio;

/// A thread of the library: named, and without signals, which are for the program's own threads.
/// @par Errors thrown: `errc::limit_exceeded`: no thread could be started.
std::thread start_thread(const char* name, std::function<void()> body);

/// Who uses a device in this process. A driver may keep a lock until a stream goes on, as for a
/// thread that copies pageable memory behind an operation: meanwhile the loop must not call it.
struct device_use {
  /// Operations in progress for which the loop may call the driver.
  std::atomic<int> driver_users{0};
  /// Operations that the loop carries out without the driver, and that streams wait for.
  std::atomic<int> waiting_streams{0};
};

/// The event loop of this process's jobs, which one thread at a time runs: a thread that waits for
/// an operation, else the progress thread. So a blocking call is carried out on the caller's
/// thread, without a switch between threads.
///
/// The progress thread takes the loop when operations are in progress and no thread has run it for
/// some 100 us (1.6 ms if callers have run it all the time before), and when nothing has happened
/// for some milliseconds; then it sleeps in the kernel until there is an event. A thread that has
/// to wait stops it and takes the loop over.
/// @par Threads  Any, unless stated otherwise.
class progress {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// The loop of this process, made on first use and never destroyed. @par Errors thrown:
  /// `errc::used_after_fork` in a child of a process that has one.
  static progress& of_process(spin_policy policy);

  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  asio::any_io_executor executor() { return context_.get_executor(); }
  void require_here() const { origin_.require_here("this job"); }
  bool is_here() const noexcept { return origin_.is_here(); }

  /// Runs `what` on the loop: on this thread if no other runs the loop, else soon on the other. In
  /// the order of the calls.
  template <class Function>
  void submit(Function what) {
    if (posted_.load() == 0 && try_enter()) {
      const turn mine(*this);
      what();
      return;
    }
    ++posted_;
    asio::post(context_, [this, what = std::move(what)]() mutable {
      --posted_;
      what();
    });
  }
  /// Runs `what` on the loop before it returns.
  void run_now(const std::function<void()>& what);
  /// Runs the loop, or waits while another thread does, until `is_done` is set by a handler of the
  /// loop that then calls `notify`, or until `limit`.
  void wait(const std::atomic<bool>& is_done, time_point limit);
  /// Runs what is ready, without waiting.
  void poll();
  /// On the loop: an operation is complete, for which another thread may wait.
  void notify() noexcept;

  /// Operations in progress: +1, -1.
  void count_operations(int change) noexcept { operations_ += change; }
  /// Of those, the ones that are queued on streams: they need no processor any more.
  void count_queued(int change) noexcept { queued_ += change; }
  bool needs_processor() const noexcept { return operations_.load() > queued_.load(); }
  /// Of a device, which lives as long as the loop. Any thread.
  device_use& use_of(memory_kind kind, int device);
  /// This thread goes on while the loop has operations to carry out: the progress thread takes the
  /// loop at once. @par Cost  a system call, unless that has it.
  void hand_over();
  /// Makes progress until no stream of the device waits for an operation. Not on the loop.
  void let_streams_go_on(const device_use& on);

  /// A short call of the driver by the loop. While it exists and `may_call`, no stream waits for
  /// the loop, on any device, as a driver's lock may be for all; a thread that is about to let one
  /// wait waits for its end.
  class driver_turn {
   public:
    explicit driver_turn(progress& of) noexcept : of_(of) {
      ++of_.driver_turns_;
      may_call_ = of_.no_stream_waits();
    }
    ~driver_turn() { --of_.driver_turns_; }
    driver_turn(const driver_turn&) = delete;
    driver_turn& operator=(const driver_turn&) = delete;
    bool may_call() const noexcept { return may_call_; }

   private:
    progress& of_;
    bool may_call_ = false;
  };
  /// After the stream has been counted.
  void wait_for_driver_turns() const noexcept {
    while (driver_turns_.load() > 0) std::this_thread::yield();
  }
  /// Calls `what` on a thread of its own, in order.
  void notify_user(std::function<void()> what);

 private:
  enum class driver : std::uint8_t { none, caller, progress_thread };
  /// A caller's turn with the loop, which it has taken.
  class turn {
   public:
    explicit turn(progress& of) noexcept : of_(of) {}
    ~turn() { of_.leave(); }
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;

   private:
    progress& of_;
  };

  explicit progress(spin_policy policy);
  ~progress() = delete;

  bool no_stream_waits() noexcept;
  bool try_enter();
  bool enter(std::unique_lock<std::mutex>& lock);
  void leave();
  void run_progress_thread();
  void run_notifier();

  const detail::process_origin origin_;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  detail::event_loop loop_;

  std::mutex mutex_;
  std::condition_variable changed_;  ///< the driver has changed, or an operation is complete
  driver driver_ = driver::none;
  int callers_waiting_ = 0;  ///< threads that wait for `changed_`
  int callers_wanting_ = 0;  ///< of those, the ones that wait to take the loop
  std::uint64_t turns_ = 0;  ///< of callers
  std::condition_variable handed_over_;
  bool is_handed_over_ = false;
  std::atomic<int> operations_{0};
  std::atomic<int> queued_{0};
  std::mutex uses_mutex_;
  std::map<std::pair<memory_kind, int>, device_use> uses_;
  std::atomic<int> driver_turns_{0};
  std::atomic<int> posted_{0};  ///< by `submit`, and not run yet
  const std::atomic<bool> never_{false};
  std::thread progress_thread_;

  std::mutex notifier_mutex_;
  std::condition_variable notifier_wakes_;
  std::deque<std::function<void()>> notifications_;
  std::thread notifier_;
};

}  // namespace tandem::c
