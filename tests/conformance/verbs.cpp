// The whole suite over RDMA, on devices in memory: one lane, two, one that TCP stands by for, and
// lanes that are cut again and again.

#include <fmt/format.h>

#include <boost/asio/this_coro.hpp>

#include "conformance/channel_case.hpp"
#include "rails/socket_wire.hpp"
#include "support/rails_rig.hpp"
#include "support/rdma/double.hpp"
#include "verbs/meet.hpp"

namespace tandem::test {
namespace {

/// A device for each lane and side, and who keeps them: the last lane over them ends their world,
/// which fails the test where something of it is left.
class rdma_network {
 public:
  static std::shared_ptr<rdma_network> make(const asio::any_io_executor& executor,
                                            std::size_t lanes, rdma_double::delivery when) {
    std::vector<rdma_double::device_spec> devices;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      for (int side = 0; side < 2; ++side) {
        const std::string name = device_name(side, lane);
        devices.push_back({.name = name});
        devices.back().gids = {rdma_double::roce(fmt::format("10.0.{}.{}", lane, side + 1), 1)};
      }
    }
    auto made = std::make_shared<rdma_network>();
    made->world_ = std::make_shared<rdma_double>(std::move(devices));
    made->world_->deliver(when);
    made->executor_ = executor;
    return made;
  }

  std::shared_ptr<verbs::adapter> open(sealed::side which, std::size_t lane) const {
    const int side = which == sealed::side::connector ? 0 : 1;
    std::shared_ptr<verbs::adapter> opened =
        verbs::adapter::open(executor_, world_->table(), {device_name(side, lane), 1, 0});
    verbs::adapter* const raw = opened.get();
    return {raw, [opened, keep = world_](verbs::adapter*) mutable {
              opened->close();
              opened.reset();
              keep.reset();
            }};
  }

 private:
  static std::string device_name(int side, std::size_t lane) {
    return fmt::format("double{}_{}", side, lane);
  }
  std::shared_ptr<rdma_double> world_;
  asio::any_io_executor executor_;
};

/// Few and short slots, so that every test reaches their limits.
verbs::room small_room() {
  verbs::room room;
  room.records = 8;
  room.record_bytes = 1024;
  room.chunks = 2;
  room.chunk_bytes = 8192;
  room.words = 4;
  return room;
}

awaitable<std::unique_ptr<rails::wire>> make_wire(std::shared_ptr<rdma_network> on,
                                                  sealed::connection over, sealed::side which,
                                                  std::size_t lane) {
  std::shared_ptr<verbs::adapter> adapter = on->open(which, lane);
  std::unique_ptr<rails::wire> made =
      co_await verbs::meet(std::move(over), std::move(adapter), small_room());
  co_return made;
}

awaitable<std::unique_ptr<rails::wire>> make_standby(sealed::connection over) {
  co_return std::make_unique<rails::socket_wire>(std::move(over), true);
}

/// Lanes from `rdma_lanes` on are TCP and stand by.
awaitable<std::shared_ptr<rails_rig>> connect_rig(settings options, std::size_t lanes,
                                                  std::size_t rdma_lanes,
                                                  rdma_double::delivery when) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto network = rdma_network::make(executor, rdma_lanes, when);
  rails_rig::wire_maker make = [network, rdma_lanes](sealed::connection over, sealed::side which,
                                                     std::uint16_t lane) {
    if (lane >= rdma_lanes) return make_standby(std::move(over));
    return make_wire(network, std::move(over), which, lane);
  };
  std::shared_ptr<rails_rig> rig =
      co_await rails_rig::connect(options, lanes, false, std::move(make));
  co_return rig;
}

awaitable<channel_pair> connect_one(settings options) {
  const auto rig = co_await connect_rig(options, 1, 1, rdma_double::delivery::at_post);
  co_return rig->channels();
}

awaitable<channel_pair> connect_late(settings options) {
  const auto rig = co_await connect_rig(options, 1, 1, rdma_double::delivery::at_poll);
  co_return rig->channels();
}

awaitable<channel_pair> connect_two(settings options) {
  const auto rig = co_await connect_rig(options, 2, 2, rdma_double::delivery::at_post);
  co_return rig->channels();
}

awaitable<channel_pair> connect_with_tcp(settings options) {
  const auto rig = co_await connect_rig(options, 2, 1, rdma_double::delivery::at_poll);
  co_return rig->channels();
}

awaitable<channel_pair> connect_cut(settings options) {
  const auto rig = co_await connect_rig(options, 2, 2, rdma_double::delivery::at_poll);
  rig->keep_cutting(10ms);
  co_return rig->channels();
}

INSTANTIATE_TEST_SUITE_P(
    verbs, channel_test,
    testing::Values(channel_case{"verbs", connect_one}, channel_case{"verbs_late", connect_late},
                    channel_case{"verbs_polled", connect_one, drive::by_spinning},
                    channel_case{"verbs_two", connect_two},
                    channel_case{"verbs_and_tcp", connect_with_tcp},
                    channel_case{"verbs_cut", connect_cut}),
    case_name);

}  // namespace
}  // namespace tandem::test
