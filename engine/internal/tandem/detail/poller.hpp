#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution_context.hpp>
#include <cstdint>
#include <memory>
#include <mutex>
#include <tandem/detail/fork.hpp>
#include <tandem/detail/loop_owner.hpp>

namespace tandem {

namespace asio = boost::asio;

class pollable;

/// Polls the sources of an event loop directly, faster than through the kernel's event queue:
/// sockets, completion queues, rings in shared memory. One per execution context.
///
/// The list has no lock, which every poll would pay for: pollables are constructed, polled and
/// destroyed on the one thread that runs the context, or before it runs. All strands of a context
/// share a second poller, which has no list and never polls.
class poller final : public asio::execution_context::service {
 public:
  using key_type = poller;
  static inline asio::execution_context::id id;
  explicit poller(asio::execution_context& context) : service(context) {}
  static poller& of(const asio::any_io_executor& executor);
  /// The thread that runs the context; not for strands.
  detail::loop_thread& thread() noexcept { return thread_; }
  /// @par Errors thrown: `errc::used_after_fork` if the context belongs to the parent process.
  void require_own_process() const { origin_.require_here("this io_context"); }

  /// True while `tandem::run` runs the context. Otherwise all pollables stay armed.
  bool is_polling() const noexcept { return is_polling_; }
  void set_polling(bool on) noexcept { is_polling_ = on; }
  /// True while that loop polls before it sleeps and no other loop competes for its core.
  bool may_spin() const noexcept { return is_polling_ && has_core_; }
  void set_core(bool own) noexcept { has_core_ = own; }

  /// Counts waits (on: +1, off: -1) for a completion that is imminent and that only a pollable's
  /// own poll can see, not memory: poll rounds then follow each other closely.
  void expect_completion(bool on) noexcept {
    if (has_list_) expected_completions_ += on ? 1 : -1;
  }
  bool expects_completion() const noexcept { return expected_completions_ > 0; }

  /// State of the loop's polling handler: queued at most once; whether its last rounds found
  /// anything; what the loop waits for, null: nothing that would end the rounds.
  struct {
    bool is_posted = false;
    bool found = false;
    const std::atomic<bool>* until = nullptr;
  } poll_handler;

  /// Polls every pollable once; true if any found something.
  bool poll();
  /// Number of pollables that only read memory.
  int memory_pollables() const noexcept { return memory_pollables_; }
  /// Polls only those that only read memory: some nanoseconds each, no system call.
  bool poll_memory();
  /// Arms every pollable: the loop is about to sleep.
  void arm();

 private:
  friend class pollable;
  void shutdown() noexcept override {}

  bool poll_all(pollable* first);
  poller& for_strands();

  detail::loop_thread thread_;
  bool has_list_ = true;
  std::mutex mutex_;
  std::unique_ptr<poller> for_strands_;
  pollable* first_ = nullptr;         // those that make system calls
  pollable* first_memory_ = nullptr;  // those that only read memory
  int memory_pollables_ = 0;
  int expected_completions_ = 0;
  detail::process_origin origin_;
  pollable* upcoming_ = nullptr;  // the next of a traversal; updated if it is destroyed
  bool is_polling_ = false;
  bool has_core_ = false;
};

/// One polled source. Idle pollables arm themselves; polling an armed one costs only a call.
class pollable {
 public:
  /// Cost of a poll: a system call, or a memory read, which can be repeated many times.
  enum class poll_cost : std::uint8_t { system_call, memory_read };
  explicit pollable(const asio::any_io_executor& executor, poll_cost cost = poll_cost::system_call);
  pollable(const pollable&) = delete;
  pollable& operator=(const pollable&) = delete;

 protected:
  ~pollable();
  poller& loop() const noexcept { return poller_; }

 private:
  friend class poller;
  /// Polls once without blocking; true if it found something. May destroy any pollable but itself.
  virtual bool poll() = 0;
  /// Makes the kernel wake the loop at the next event. Idempotent.
  virtual void arm() = 0;

  poller& poller_;
  pollable* next_ = nullptr;
  pollable* previous_ = nullptr;
  const poll_cost cost_;
};

}  // namespace tandem
