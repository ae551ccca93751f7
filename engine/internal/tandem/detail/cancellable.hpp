#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <exception>
#include <utility>

namespace tandem {

namespace asio = boost::asio;

/// A spawned coroutine that can be cancelled at any time, also before it first runs.
///
/// `co_spawn` alone does not allow that (Boost 1.81): a cancellation before the coroutine first
/// runs, or in a first run that ends without suspending, is thrown out of the event loop, and the
/// handler is never called.
/// @par Lifetime  Must not move until the handler is called; the handler may own it.
class cancellable {
 public:
  cancellable() = default;
  cancellable(const cancellable&) = delete;
  cancellable& operator=(const cancellable&) = delete;

  /// Runs `work` on `executor`; `end` is called with its outcome. At most once per object.
  template <class Handler>
  void start(const asio::any_io_executor& executor, asio::awaitable<void> work, Handler end) {
    asio::co_spawn(executor, run(*this, std::move(work)),
                   with_slot<Handler>{std::move(end), signal_.slot()});
  }
  /// May also be called before `start`, after completion and repeatedly.
  void cancel(asio::cancellation_type type = asio::cancellation_type::terminal);

 private:
  /// Replaces `bind_cancellation_slot`: with that, `co_spawn` posts the cancellation while the loop
  /// is not running, and it arrives when this object may have been destroyed.
  template <class Handler>
  struct with_slot {
    using cancellation_slot_type = asio::cancellation_slot;
    cancellation_slot_type get_cancellation_slot() const noexcept { return slot; }
    void operator()(std::exception_ptr failure) { handler(failure); }
    Handler handler;
    cancellation_slot_type slot;
  };

  static asio::awaitable<void> run(cancellable& self, asio::awaitable<void> work);

  asio::cancellation_signal signal_;
  bool is_running_ = false;
  bool is_cancelled_ = false;
};

}  // namespace tandem
