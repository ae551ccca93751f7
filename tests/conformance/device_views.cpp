// The channel suite with views of device memory, at one end or both.

#include "support/device_views.hpp"

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/channels.hpp>

#include "conformance/pairs.hpp"
#include "devices/link.hpp"
#include "support/channel_case.hpp"

namespace tandem::test {
namespace {

/// Users' views of this end become views of the device.
std::unique_ptr<channel> on_device(std::unique_ptr<channel> inner, int device,
                                   const settings& options) {
  cuda_double& gpus = gpus_of_this_test();
  const auto by = std::make_shared<devices::copiers>(inner->get_executor());
  return with_device_views(
      devices::make_channel(std::move(inner), by, options, {}, devices::unshared_location), gpus,
      device);
}

awaitable<channel_pair> between_devices(settings options) {
  channel_pair below = co_await pair_over_local(options);
  co_return channel_pair{on_device(std::move(below.first), 0, options),
                         on_device(std::move(below.second), 1, options)};
}

awaitable<channel_pair> views_over_tcp(settings options) {
  channel_pair below = co_await pair_over_tcp(options);
  co_return channel_pair{on_device(std::move(below.first), 0, options),
                         on_device(std::move(below.second), 1, options)};
}

/// The second end has GPUs, and host views.
awaitable<channel_pair> device_and_host(settings options) {
  channel_pair below = co_await pair_over_local(options);
  co_return channel_pair{on_device(std::move(below.first), 0, options),
                         on_device(std::move(below.second), -1, options)};
}

INSTANTIATE_TEST_SUITE_P(
    device_views, channel_test,
    testing::Values(
        channel_case{"between_devices", between_devices, drive::by_asio, false},
        channel_case{"between_devices_polled", between_devices, drive::by_spinning, false},
        channel_case{"device_and_host", device_and_host, drive::by_asio, false},
        channel_case{"between_devices_over_tcp", views_over_tcp, drive::by_asio, false}),
    case_name);

}  // namespace
}  // namespace tandem::test
