// The whole suite through shared memory: long messages read where they lie, and through the ring.

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/channels/shm.hpp>

#include "conformance/channel_case.hpp"

namespace tandem::test {
namespace {

awaitable<channel_pair> connect(settings options) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  shm::listener door(executor, "", options);
  channel_pair pair;
  pair.first = co_await shm::connect(door.name(), options);
  pair.second = co_await door.accept();
  co_return pair;
}

awaitable<channel_pair> connect_single_copy(settings options) {
  options.shm_single_copy = single_copy::on;
  return connect(std::move(options));
}

/// The least ring, so that it is full and goes round in most tests.
awaitable<channel_pair> connect_ring(settings options) {
  options.shm_single_copy = single_copy::off;
  options.shm_ring_bytes = 64 * 1024;
  return connect(std::move(options));
}

INSTANTIATE_TEST_SUITE_P(
    shm, channel_test,
    testing::Values(channel_case{"shm", connect_single_copy},
                    channel_case{"shm_ring", connect_ring},
                    channel_case{"shm_polled", connect_single_copy, drive::by_spinning},
                    channel_case{"shm_ring_polled", connect_ring, drive::by_spinning}),
    case_name);

}  // namespace
}  // namespace tandem::test
