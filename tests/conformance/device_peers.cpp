// The channel suite between GPUs that access each other's memory: by address, by IPC handles, or
// through shared pinned staging.

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/channels.hpp>

#include "conformance/pairs.hpp"
#include "conformance/shm_peer.hpp"
#include "devices/link.hpp"
#include "support/channel_case.hpp"
#include "support/device_views.hpp"

namespace tandem::test {
namespace {

constexpr std::size_t arena_bytes = std::size_t{1} << 20;

enum class processes { one, two, two_without_peer_copies };

/// Makes ends appear to be in different processes; the double allows that.
devices::process_location where(int end, processes how) {
  devices::process_location here = devices::process_location::here();
  if (how != processes::one) here.process[15] = static_cast<std::byte>(end);
  return here;
}

/// @param device  -1: host memory
std::unique_ptr<channel> make_end(std::unique_ptr<channel> inner, int end, int device,
                                  processes how, const settings& options) {
  cuda_double& gpus = gpus_of_this_test();
  const auto by = std::make_shared<devices::copiers>(inner->get_executor());
  auto made = devices::make_channel(std::move(inner), by, options, {}, where(end, how));
  if (device < 0) return with_device_views(std::move(made), gpus, device);
  return with_device_views(std::move(made), gpus, device, device_arena(arena_bytes, device));
}

using pair_maker = awaitable<channel_pair> (*)(settings);

template <processes How, int First, int Second, pair_maker Below = pair_over_local>
awaitable<channel_pair> connect(settings options) {
  options.peer_copies = How != processes::two_without_peer_copies;
  channel_pair below = co_await Below(options);
  co_return channel_pair{make_end(std::move(below.first), 0, First, How, options),
                         make_end(std::move(below.second), 1, Second, How, options)};
}

INSTANTIATE_TEST_SUITE_P(
    device_peers, channel_test,
    testing::Values(
        channel_case{"peers", connect<processes::two, 0, 1>, drive::by_asio, false},
        channel_case{"peers_polled", connect<processes::two, 0, 1>, drive::by_spinning, false},
        channel_case{"peers_over_shm", connect<processes::two, 0, 1, connect_shm>, drive::by_asio,
                     false},
        channel_case{"peers_over_shm_polled", connect<processes::two, 0, 1, connect_shm>,
                     drive::by_spinning, false},
        channel_case{"peers_on_one_device", connect<processes::two, 1, 1>, drive::by_asio, false},
        channel_case{"peers_in_one_process", connect<processes::one, 0, 1>, drive::by_asio, false},
        channel_case{"peer_and_host", connect<processes::two, 0, -1>, drive::by_asio, false},
        channel_case{"shared_staging", connect<processes::two_without_peer_copies, 0, 1>,
                     drive::by_asio, false},
        channel_case{"shared_staging_polled", connect<processes::two_without_peer_copies, 0, 1>,
                     drive::by_spinning, false},
        channel_case{"shared_staging_and_host", connect<processes::two_without_peer_copies, 0, -1>,
                     drive::by_asio, false}),
    case_name);

}  // namespace
}  // namespace tandem::test
