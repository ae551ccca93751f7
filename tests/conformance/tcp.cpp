#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/channels/tcp.hpp>

#include "conformance/channel_case.hpp"

namespace tandem::test {
namespace {

awaitable<channel_pair> connect(settings options) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener door(executor, "127.0.0.1", 0, options);
  channel_pair pair;
  pair.first = co_await tcp::connect("127.0.0.1", door.port(), options);
  pair.second = co_await door.accept();
  co_return pair;
}

INSTANTIATE_TEST_SUITE_P(tcp, channel_test,
                         testing::Values(channel_case{"tcp", connect, drive::by_asio},
                                         channel_case{"tcp_polled", connect, drive::by_spinning}),
                         case_name);

}  // namespace
}  // namespace tandem::test
