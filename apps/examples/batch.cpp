// Many messages in flight from one coroutine, without a coroutine for each.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <iostream>
#include <numeric>
#include <tandem/tandem.hpp>
#include <vector>

namespace asio = boost::asio;

constexpr std::size_t messages = 64, values_per_message = 1024;

asio::awaitable<void> send_all(std::unique_ptr<tandem::channel> to) {
  std::vector<int> values(messages * values_per_message);
  std::iota(values.begin(), values.end(), 0);
  const tandem::const_view all(values);
  const std::size_t bytes = all.bytes / messages;
  tandem::batch window(to->get_executor(), messages);
  for (std::size_t i = 0; i < messages; ++i) window.send(*to, 0, all.part(i * bytes, bytes));
  co_await window.all();
}

asio::awaitable<long> receive_all(std::unique_ptr<tandem::channel> from) {
  std::vector<int> values(messages * values_per_message);
  const tandem::mutable_view all(values);
  const std::size_t bytes = all.bytes / messages;
  tandem::batch window(from->get_executor(), messages);
  for (std::size_t i = 0; i < messages; ++i) window.recv(*from, 0, all.part(i * bytes, bytes));
  co_await window.all();
  co_return std::accumulate(values.begin(), values.end(), 0L);
}

int main() {
  asio::io_context context;
  auto [here, there] = tandem::local::make_pair(context.get_executor(), context.get_executor());
  std::future<long> sum = asio::co_spawn(context, receive_all(std::move(there)), asio::use_future);
  std::future<void> sent = asio::co_spawn(context, send_all(std::move(here)), asio::use_future);
  tandem::run(context);
  sent.get();
  std::cout << messages << " messages received, sum " << sum.get() << '\n';
}
