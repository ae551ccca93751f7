// Device channels over other channels, with host views only.

#include <boost/asio/use_awaitable.hpp>

#include "conformance/pairs.hpp"
#include "devices/link.hpp"
#include "support/channel_case.hpp"

namespace tandem::test {
namespace {

std::unique_ptr<channel> on_top_of(std::unique_ptr<channel> inner, const settings& options) {
  const auto by = std::make_shared<devices::copiers>(inner->get_executor());
  return devices::make_channel(std::move(inner), by, options);
}

awaitable<channel_pair> over_local(settings options) {
  channel_pair below = co_await pair_over_local(options);
  co_return channel_pair{on_top_of(std::move(below.first), options),
                         on_top_of(std::move(below.second), options)};
}

awaitable<channel_pair> over_tcp(settings options) {
  channel_pair below = co_await pair_over_tcp(options);
  co_return channel_pair{on_top_of(std::move(below.first), options),
                         on_top_of(std::move(below.second), options)};
}

INSTANTIATE_TEST_SUITE_P(devices, channel_test,
                         testing::Values(channel_case{"devices_over_local", over_local},
                                         channel_case{"devices_over_tcp", over_tcp},
                                         channel_case{"devices_over_tcp_polled", over_tcp,
                                                      drive::by_spinning}),
                         case_name);

}  // namespace
}  // namespace tandem::test
