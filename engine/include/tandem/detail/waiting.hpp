// Not for users: what the engine and the rooms on it share.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <utility>

namespace tandem::detail {

namespace asio = boost::asio;

/// Resumes, or destroys, the coroutine that has suspended itself.
using waiting_handler = asio::async_result<asio::use_awaitable_t<>, void()>::handler_type;

/// Resumes the coroutine: at once where it runs on `here`, the executor of the caller, else through
/// its own executor. `waiting` is empty before it goes on. @pre not empty.
inline void resume(std::optional<waiting_handler>& waiting, const asio::any_io_executor& here) {
  waiting_handler handler = std::move(*waiting);
  waiting.reset();
  const asio::any_io_executor mine = handler.get_executor();
  if (mine == here) {
    handler();
  } else {
    asio::post(mine, std::move(handler));
  }
}

}  // namespace tandem::detail
