// The suite once more: what it sends and receives lies in the memory of devices, at one end or
// both.

#include "support/device_views.hpp"

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/channels/local.hpp>
#include <tandem/channels/tcp.hpp>

#include "conformance/channel_case.hpp"
#include "devices/link.hpp"

namespace tandem::test {
namespace {

/// The views of this end are the device's.
std::unique_ptr<channel> on_device(std::unique_ptr<channel> inner, int device,
                                   const settings& options) {
  cuda_double& gpus = gpus_of_this_test();
  const auto by = std::make_shared<devices::copiers>(inner->get_executor());
  return with_device_views(
      devices::make_channel(std::move(inner), by, options, {}, devices::forwarding), gpus, device);
}

awaitable<channel_pair> between_devices(settings options) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  auto [first, second] = local::make_pair(executor, executor, options);
  co_return channel_pair{on_device(std::move(first), 0, options),
                         on_device(std::move(second), 1, options)};
}

awaitable<channel_pair> over_tcp(settings options) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  tcp::listener door(executor, "127.0.0.1", 0, options);
  std::unique_ptr<channel> first = co_await tcp::connect("127.0.0.1", door.port(), options);
  std::unique_ptr<channel> second = co_await door.accept();
  co_return channel_pair{on_device(std::move(first), 0, options),
                         on_device(std::move(second), 1, options)};
}

/// The second end has GPUs, and host memory.
awaitable<channel_pair> device_and_host(settings options) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  auto [first, second] = local::make_pair(executor, executor, options);
  co_return channel_pair{on_device(std::move(first), 0, options),
                         on_device(std::move(second), -1, options)};
}

INSTANTIATE_TEST_SUITE_P(
    device_views, channel_test,
    testing::Values(channel_case{"between_devices", between_devices, drive::by_asio, false},
                    channel_case{"between_devices_polled", between_devices, drive::by_spinning,
                                 false},
                    channel_case{"device_and_host", device_and_host, drive::by_asio, false},
                    channel_case{"between_devices_over_tcp", over_tcp, drive::by_asio, false}),
    case_name);

}  // namespace
}  // namespace tandem::test
