#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

namespace tandem {

namespace asio = boost::asio;

/// A condition variable for coroutines of one executor: each `wait` returns at the next
/// `notify_all`. Notifications are not stored, so check the condition before and after waiting.
/// @par Cancellation  Terminal: `wait` throws operation_aborted.
class event {
 public:
  explicit event(const asio::any_io_executor& executor)
      : timer_(executor, asio::steady_timer::time_point::max()) {}

  asio::awaitable<void> wait();
  void notify_all() { timer_.cancel(); }

 private:
  asio::steady_timer timer_;
};

}  // namespace tandem
