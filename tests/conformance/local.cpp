#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/channels/local.hpp>

#include "conformance/channel_case.hpp"

namespace tandem::test {
namespace {

awaitable<channel_pair> connect(settings options) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  auto [first, second] = local::make_pair(executor, executor, options);
  co_return channel_pair{std::move(first), std::move(second)};
}

INSTANTIATE_TEST_SUITE_P(local, channel_test, testing::Values(channel_case{"local", connect}),
                         case_name);

}  // namespace
}  // namespace tandem::test
