// The channel suite with views of device memory that NICs read and write directly, at both ends or
// at one, over lanes that are reset, and with TCP as standby.

#include "conformance/nic_rig.hpp"

namespace tandem::test {
namespace {

constexpr std::size_t nics_arena_bytes = std::size_t{4} << 20;

struct lanes_case {
  std::size_t all = 1, rdma = 1;
  rdma_double::delivery when = rdma_double::delivery::at_post;
  bool is_cut = false;
  bool has_arena = true;  ///< else each view is an allocation
  int second_device = 1;  ///< -1: the second end has host memory
};

std::unique_ptr<channel> on_device(std::unique_ptr<channel> inner,
                                   const std::shared_ptr<rdma_network>& network, int side,
                                   int device, bool has_arena, const settings& options) {
  cuda_double& gpus = gpus_of_this_test();
  std::shared_ptr<arena> from;
  if (has_arena && device >= 0) from = device_arena(nics_arena_bytes, device);
  auto end = end_over_nics(std::move(inner), nics_of(network, side), options);
  return with_device_views(std::move(end), gpus, device, std::move(from));
}

awaitable<channel_pair> connect(settings options, lanes_case as) {
  gpus_of_this_test();
  const verbs_rig made = co_await verbs_rig::connect(options, as.all, as.rdma, as.when);
  if (as.is_cut) made.rig->keep_cutting(50ms);
  channel_pair below = made.rig->channels();
  channel_pair pair;
  pair.first = on_device(std::move(below.first), made.network, 0, 0, as.has_arena, options);
  pair.second =
      on_device(std::move(below.second), made.network, 1, as.second_device, as.has_arena, options);
  co_return pair;
}

awaitable<channel_pair> by_nics(settings options) {
  return connect(std::move(options), {});
}

awaitable<channel_pair> late(settings options) {
  return connect(std::move(options), {.when = rdma_double::delivery::at_poll});
}

awaitable<channel_pair> of_allocations(settings options) {
  return connect(std::move(options), {.has_arena = false});
}

awaitable<channel_pair> cut(settings options) {
  return connect(std::move(options),
                 {.all = 2, .rdma = 2, .when = rdma_double::delivery::at_poll, .is_cut = true});
}

/// While the only RDMA lane is down, TCP carries memory that only NICs access.
awaitable<channel_pair> cut_with_tcp(settings options) {
  return connect(std::move(options),
                 {.all = 2, .rdma = 1, .when = rdma_double::delivery::at_poll, .is_cut = true});
}

awaitable<channel_pair> to_host(settings options) {
  return connect(std::move(options), {.second_device = -1});
}

INSTANTIATE_TEST_SUITE_P(
    device_nics, channel_test,
    testing::Values(
        channel_case{"by_nics", by_nics, drive::by_asio, false},
        channel_case{"by_nics_late", late, drive::by_spinning, false},
        channel_case{"by_nics_of_allocations", of_allocations, drive::by_asio, false, false},
        channel_case{"by_nics_cut", cut, drive::by_asio, false, false},
        channel_case{"by_nics_cut_with_tcp", cut_with_tcp, drive::by_asio, false, false},
        channel_case{"by_nics_to_host", to_host, drive::by_asio, false}),
    case_name);

}  // namespace
}  // namespace tandem::test
