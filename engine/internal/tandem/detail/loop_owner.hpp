// Private: shared by the engine and the modules built on it.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <string_view>
#include <tandem/error.hpp>

namespace tandem {

namespace asio = boost::asio;

namespace detail {

/// A thread that has run a loop. Never freed: a later thread takes it over.
struct thread_mark {
  std::atomic<bool> is_alive{true};
};

/// Of this thread; null until it has run a loop.
extern constinit thread_local thread_mark* this_thread_mark;
/// The mark of this thread, made on first use.
thread_mark& mark_of_this_thread();

/// The thread of an execution context, known from its first call or completion inside the context's
/// `run` on. `tandem::run` sets it and forgets it at its end; a thread that has ended loses it.
class loop_thread {
 public:
  /// The mark of a loop that several threads run in turns, synchronised by the caller.
  static thread_mark any;

  void set(thread_mark* now) noexcept { mark_.store(now, std::memory_order_relaxed); }
  /// One load and a comparison, once the thread is known.
  bool is_this(const asio::any_io_executor& executor) noexcept {
    const thread_mark* const known = mark_.load(std::memory_order_relaxed);
    if (known != nullptr && (known == this_thread_mark || known == &any)) return true;
    return is_this_after_all(executor);
  }

 private:
  bool is_this_after_all(const asio::any_io_executor& executor) noexcept;

  std::atomic<thread_mark*> mark_{nullptr};
};

/// The thread or strand that drives a channel, a fabric or a communicator: every call and every
/// completion is made there, since none of them has a lock.
///
/// - The executor of an io_context, or of a pool of one thread: the thread that runs it.
/// - A strand: its handlers and coroutines.
/// - The executor of a pool of several threads, and of the system: refused, as handlers would run
///   at the same time.
/// - Any other: not known, and not checked.
class loop_owner {
 public:
  /// @par Errors thrown: `errc::bad_input` for an executor that cannot work.
  explicit loop_owner(const asio::any_io_executor& executor);

  /// Whether the caller runs there.
  bool is_here() const {
    if (thread_ != nullptr) return thread_->is_this(executor_);
    return strand_ == nullptr || strand_(executor_);
  }
  /// @par Errors thrown: `errc::wrong_thread`, unless `is_here`.
  void require_here(std::string_view what) const {
    if (!is_here()) throw wrong_thread(what);
  }
  /// The error of a call on, or a completion of, `what` elsewhere.
  error wrong_thread(std::string_view what) const;

 private:
  const asio::any_io_executor executor_;
  loop_thread* thread_ = nullptr;
  bool (*strand_)(const asio::any_io_executor&) = nullptr;
};

/// Whether the executor is one of a single thread's loop, which `tandem::run` may poll for.
bool has_one_thread(const asio::any_io_executor& executor);

}  // namespace detail
}  // namespace tandem
