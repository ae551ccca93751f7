// Private: shared by the engine and the modules built on it, not part of the public interface.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <utility>

namespace tandem::detail {

namespace asio = boost::asio;

/// Resumes or destroys a suspended coroutine.
using waiting_handler = asio::async_result<asio::use_awaitable_t<>, void()>::handler_type;

/// Resumes the coroutine: directly if it runs on `here`, the executor of the caller, else through
/// its own executor. `waiting` is reset before it resumes. @pre not empty.
inline void resume(std::optional<waiting_handler>& waiting, const asio::any_io_executor& here) {
  waiting_handler handler = std::move(*waiting);
  waiting.reset();
  const asio::any_io_executor own = handler.get_executor();
  if (own == here) {
    handler();
  } else {
    asio::post(own, std::move(handler));
  }
}

}  // namespace tandem::detail
