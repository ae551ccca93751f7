#include "conformance/pairs.hpp"

#include <boost/asio/this_coro.hpp>
#include <tandem/channels.hpp>

namespace tandem::test {

awaitable<channel_pair> pair_over_local(settings options) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  auto [first, second] = local::make_pair(executor, executor, options);
  co_return channel_pair{std::move(first), std::move(second)};
}

awaitable<channel_pair> pair_over_tcp(settings options) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener listener(executor, "127.0.0.1", 0, options);
  channel_pair pair;
  pair.first = co_await tcp::connect("127.0.0.1", listener.port(), options);
  pair.second = co_await listener.accept();
  co_return pair;
}

awaitable<void> connect_by_tcp(std::uint16_t port, settings options) {
  std::unique_ptr<channel> made = co_await tcp::connect("127.0.0.1", port, std::move(options));
}

}  // namespace tandem::test
