// The channel suite over an RDMA device of this host connected to itself, named by
// TANDEM_TEST_RDMA: "rxe0 1 1" is the device, its port and the GID index. tests/roce/conformance
// runs it on the kernel's soft-RoCE.

#include <boost/asio/this_coro.hpp>
#include <cstdlib>
#include <limits>

#include "support/channel_case.hpp"
#include "support/named_device.hpp"
#include "support/rails_rig.hpp"

namespace tandem::test {
namespace {

const char* named_device() {
  return std::getenv("TANDEM_TEST_RDMA");
}

/// Both ends use one adapter, so that its events reach both; it closes with the last lane. A
/// virtual machine takes a second for the first queue pair, during which nothing arrives.
awaitable<channel_pair> connect_device(settings options, std::uint64_t registered_bytes) {
  options.rail_timeout = 5s;
  options.peer_timeout = 20s;
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  lane_connection_maker make = [on = open_device(executor, named_device()), registered_bytes](
                                   sealed::connection over, sealed::side, std::uint16_t) {
    return make_narrow_lane(on, std::move(over), registered_bytes);
  };
  const std::shared_ptr<rails_rig> rig =
      co_await rails_rig::connect(options, 1, false, std::move(make));
  co_return rig->channels();
}

awaitable<channel_pair> connect_by_slots(settings options) {
  return connect_device(std::move(options), std::numeric_limits<std::uint64_t>::max());
}

/// Every announced message is written in place.
awaitable<channel_pair> connect_direct(settings options) {
  return connect_device(std::move(options), 1);
}

std::vector<channel_case> device_cases() {
  if (named_device() == nullptr) return {};
  return {channel_case{"device", connect_by_slots}, channel_case{"device_direct", connect_direct}};
}

INSTANTIATE_TEST_SUITE_P(rdma, channel_test, testing::ValuesIn(device_cases()), case_name);

}  // namespace
}  // namespace tandem::test
