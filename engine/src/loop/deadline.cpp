#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <memory>
#include <tandem/async.hpp>
#include <tandem/detail/cancellable.hpp>
#include <tandem/detail/duration_text.hpp>
#include <utility>

namespace tandem {
namespace {

using token = asio::use_awaitable_t<>;
using parent = asio::async_result<token, void()>::handler_type;

struct outcome {
  std::exception_ptr failure;
  bool expired = false;
};

/// Owned by the work alone, as in a join; the timer holds a weak reference.
struct guard {
  guard(parent waiting, outcome& where, const asio::any_io_executor& executor)
      : handler(std::move(waiting)), result(where), timer(executor) {}
  parent handler;
  outcome& result;
  asio::steady_timer timer;
  cancellable running;
};

struct start_guarded {
  asio::any_io_executor executor;
  asio::awaitable<void>* work;
  outcome* result;
  std::chrono::steady_clock::duration limit;

  void operator()(parent handler) const {
    auto slot = asio::get_associated_cancellation_slot(handler);
    auto state = std::make_shared<guard>(std::move(handler), *result, executor);
    const std::weak_ptr<guard> weak = state;
    if (slot.is_connected()) {
      slot.assign([weak](asio::cancellation_type type) {
        if (const auto alive = weak.lock()) alive->running.cancel(type);
      });
    }
    state->timer.expires_after(limit);
    state->timer.async_wait([weak](error_code cancelled) {
      const auto alive = weak.lock();
      if (cancelled || !alive) return;
      alive->result.expired = true;
      alive->running.cancel();
    });
    cancellable& running = state->running;
    asio::awaitable<void> guarded = std::move(*work);
    const asio::any_io_executor ex = executor;
    running.start(ex, std::move(guarded), [state = std::move(state)](std::exception_ptr failure) {
      state->timer.cancel();
      state->result.failure = failure;
      parent resume = std::move(state->handler);
      resume();
    });
  }
};

}  // namespace

asio::awaitable<void> with_deadline(std::chrono::steady_clock::duration limit,
                                    asio::awaitable<void> work, std::string phase,
                                    std::string advice) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  outcome result;
  start_guarded start{executor, &work, &result, limit};
  co_await asio::async_initiate<const token&, void()>(start, asio::use_awaitable);
  if (result.expired && result.failure) {
    throw error(errc::timed_out, {.rail = {},
                                  .phase = std::move(phase),
                                  .detail = "not done within " + detail::to_text(limit),
                                  .advice = std::move(advice)});
  }
  if (result.failure) std::rethrow_exception(result.failure);
}

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
