#pragma once

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <utility>

namespace tandem {

namespace asio = boost::asio;

/// Any awaitable of this library as an Asio operation for any completion token: a callback,
/// `use_future`, `deferred`, `detached`, another `use_awaitable`. Signature
/// `void(std::exception_ptr, T)`, or `void(std::exception_ptr)` for no result.
///
///   tandem::async(ch.get_executor(), ch.recv(0, view), [](std::exception_ptr e, std::size_t n) {
///   ... });
template <class Executor, class T, class CompletionToken>
auto async(const Executor& executor, asio::awaitable<T> work, CompletionToken&& token) {
  return asio::co_spawn(executor, std::move(work), std::forward<CompletionToken>(token));
}

}  // namespace tandem
