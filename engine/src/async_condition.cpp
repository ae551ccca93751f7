#include <boost/asio/as_tuple.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <tandem/async.hpp>

namespace tandem {

asio::awaitable<void> async_condition::wait() {
  // Both a notification and a cancellation end the timer's wait; the coroutine's state tells them
  // apart.
  co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
  const asio::cancellation_state state = co_await asio::this_coro::cancellation_state;
  if (state.cancelled() != asio::cancellation_type::none) {
    throw boost::system::system_error(asio::error::operation_aborted);
  }
}

}  // namespace tandem
