// The channel suite through shared memory: long messages by single copy, and through the ring.

#include <boost/asio/use_awaitable.hpp>

#include "conformance/shm_peer.hpp"

namespace tandem::test {
namespace {

awaitable<channel_pair> connect_single_copy(settings options) {
  options.shm_single_copy = single_copy::on;
  return connect_shm(std::move(options));
}

/// The minimum ring, so that it is full and wraps around in most tests.
awaitable<channel_pair> connect_ring(settings options) {
  options.shm_single_copy = single_copy::off;
  options.shm_ring_bytes = 64 * 1024;
  return connect_shm(std::move(options));
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
