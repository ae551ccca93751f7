// The channel suite over RDMA, on simulated devices: one lane, two, one with TCP as standby, and
// lanes that are reset repeatedly.

#include "support/channel_case.hpp"
#include "support/verbs_rig.hpp"

namespace tandem::test {
namespace {

awaitable<channel_pair> connect_verbs(settings options) {
  const verbs_rig made = co_await verbs_rig::connect(options, 1, 1, rdma_double::delivery::at_post);
  co_return made.rig->channels();
}

awaitable<channel_pair> connect_late(settings options) {
  const verbs_rig made = co_await verbs_rig::connect(options, 1, 1, rdma_double::delivery::at_poll);
  co_return made.rig->channels();
}

awaitable<channel_pair> connect_two_verbs(settings options) {
  const verbs_rig made = co_await verbs_rig::connect(options, 2, 2, rdma_double::delivery::at_post);
  co_return made.rig->channels();
}

awaitable<channel_pair> connect_with_tcp(settings options) {
  const verbs_rig made = co_await verbs_rig::connect(options, 2, 1, rdma_double::delivery::at_poll);
  co_return made.rig->channels();
}

awaitable<channel_pair> connect_cut_verbs(settings options) {
  const verbs_rig made = co_await verbs_rig::connect(options, 2, 2, rdma_double::delivery::at_poll);
  made.rig->keep_cutting(50ms);
  co_return made.rig->channels();
}

awaitable<channel_pair> connect_direct_verbs(settings options) {
  const verbs_rig made =
      co_await verbs_rig::connect(options, 1, 1, rdma_double::delivery::at_post, direct_queues());
  co_return made.rig->channels();
}

awaitable<channel_pair> connect_direct_late(settings options) {
  const verbs_rig made =
      co_await verbs_rig::connect(options, 1, 1, rdma_double::delivery::at_poll, direct_queues());
  co_return made.rig->channels();
}

awaitable<channel_pair> connect_direct_cut(settings options) {
  const verbs_rig made =
      co_await verbs_rig::connect(options, 2, 2, rdma_double::delivery::at_poll, direct_queues());
  made.rig->keep_cutting(50ms);
  co_return made.rig->channels();
}

INSTANTIATE_TEST_SUITE_P(
    verbs, channel_test,
    testing::Values(channel_case{"verbs", connect_verbs}, channel_case{"verbs_late", connect_late},
                    channel_case{"verbs_polled", connect_verbs, drive::by_spinning},
                    channel_case{"verbs_two", connect_two_verbs},
                    channel_case{"verbs_and_tcp", connect_with_tcp},
                    channel_case{"verbs_cut", connect_cut_verbs, drive::by_asio, true, false},
                    channel_case{"verbs_direct", connect_direct_verbs},
                    channel_case{"verbs_direct_late", connect_direct_late},
                    channel_case{"verbs_direct_polled", connect_direct_verbs, drive::by_spinning},
                    channel_case{"verbs_direct_cut", connect_direct_cut, drive::by_asio, true,
                                 false}),
    case_name);

}  // namespace
}  // namespace tandem::test
