#include "support/verbs_rig.hpp"

#include <fmt/format.h>

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <limits>
#include <tandem/async.hpp>

#include "transports/rails/tcp_lane_connection.hpp"

namespace tandem::test {
namespace {

awaitable<std::unique_ptr<rails::lane_connection>> make_rdma_lane(std::shared_ptr<rdma_network> on,
                                                                  sealed::connection over,
                                                                  sealed::side which,
                                                                  std::size_t lane) {
  std::unique_ptr<rails::lane_connection> made =
      co_await on->establish(std::move(over), which, lane);
  co_return made;
}

awaitable<std::unique_ptr<rails::lane_connection>> make_standby(sealed::connection over) {
  co_return std::make_unique<rails::tcp_lane_connection>(std::move(over), true);
}

awaitable<void> establish_end(std::shared_ptr<verbs::adapter> on, asio::ip::tcp::socket over,
                              std::unique_ptr<rails::lane_connection>& made) {
  sealed::connection connection(std::move(over), {});
  made = co_await verbs::establish(std::move(connection), std::move(on), small_queues());
}

}  // namespace

std::shared_ptr<rdma_network> rdma_network::make(const asio::any_io_executor& executor,
                                                 std::size_t lanes, rdma_double::delivery when) {
  return make(executor, lanes, when, small_queues());
}

std::shared_ptr<rdma_network> rdma_network::make(const asio::any_io_executor& executor,
                                                 std::size_t lanes, rdma_double::delivery when,
                                                 const verbs::queue_depths& queue_depths) {
  std::vector<rdma_double::device_spec> devices;
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    for (int side = 0; side < 2; ++side) {
      devices.push_back({.name = device_name(side, lane), .dmabuf = true});
      devices.back().gids = {rdma_double::roce(fmt::format("10.0.{}.{}", lane, side + 1), 1)};
    }
  }
  auto made = std::make_shared<rdma_network>();
  made->world_ = std::make_shared<rdma_double>(std::move(devices));
  made->world_->deliver(when);
  made->executor_ = executor;
  made->queue_depths_ = queue_depths;
  return made;
}

std::shared_ptr<verbs::adapter> rdma_network::open(sealed::side which, std::size_t lane) const {
  const int side = which == sealed::side::connector ? 0 : 1;
  std::shared_ptr<verbs::adapter> opened =
      verbs::adapter::open(executor_, world_->table(), {device_name(side, lane), 1, 0});
  verbs::adapter* const raw = opened.get();
  const std::shared_ptr<verbs::adapter> shared(raw,
                                               [opened, keep = world_](verbs::adapter*) mutable {
                                                 opened->close();
                                                 opened.reset();
                                                 keep.reset();
                                               });
  regions_[side]->attach(shared);
  return shared;
}

awaitable<std::unique_ptr<rails::lane_connection>> rdma_network::establish(sealed::connection over,
                                                                           sealed::side which,
                                                                           std::size_t lane) const {
  std::shared_ptr<verbs::adapter> adapter = open(which, lane);
  used_[device_name(which == sealed::side::connector ? 0 : 1, lane)] = adapter;
  std::unique_ptr<rails::lane_connection> made =
      co_await verbs::establish(std::move(over), std::move(adapter), queue_depths_);
  co_return made;
}

std::string rdma_network::device_name(int side, std::size_t lane) {
  return fmt::format("double{}_{}", side, lane);
}

verbs::queue_depths small_queues() {
  verbs::queue_depths queue_depths;
  queue_depths.records = 8;
  queue_depths.record_bytes = 1024;
  queue_depths.chunks = 2;
  queue_depths.chunk_bytes = 8192;
  queue_depths.updates = 4;
  queue_depths.registered_bytes = std::numeric_limits<std::uint64_t>::max();
  return queue_depths;
}

verbs::queue_depths direct_queues() {
  verbs::queue_depths queue_depths = small_queues();
  queue_depths.registered_bytes = 1;
  return queue_depths;
}

awaitable<verbs_rig> verbs_rig::connect(settings options, std::size_t lanes, std::size_t rdma_lanes,
                                        rdma_double::delivery when,
                                        const verbs::queue_depths& queue_depths) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  verbs_rig made;
  made.network =
      rdma_network::make(executor, rdma_lanes, rdma_double::delivery::at_poll, queue_depths);
  lane_connection_maker make = [network = made.network, rdma_lanes](sealed::connection over,
                                                                    sealed::side which,
                                                                    std::uint16_t lane) {
    if (lane >= rdma_lanes) return make_standby(std::move(over));
    return make_rdma_lane(network, std::move(over), which, lane);
  };
  made.rig = co_await rails_rig::connect(options, lanes, false, std::move(make));
  made.network->devices().deliver(when);
  co_return made;
}

awaitable<std::array<asio::ip::tcp::socket, 2>> connected_sockets() {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  asio::ip::tcp::acceptor acceptor(executor, {asio::ip::address_v4::loopback(), 0});
  asio::ip::tcp::socket near(executor);
  co_await near.async_connect(acceptor.local_endpoint(), asio::use_awaitable);
  asio::ip::tcp::socket far = co_await acceptor.async_accept(asio::use_awaitable);
  co_return std::array<asio::ip::tcp::socket, 2>{std::move(near), std::move(far)};
}

awaitable<lane_connection_pair> lane_connection_pair::connect(const rdma_network& on,
                                                              std::size_t lane) {
  std::array<asio::ip::tcp::socket, 2> over = co_await connected_sockets();
  lane_connection_pair made;
  std::vector<awaitable<void>> both;
  both.push_back(
      establish_end(on.open(sealed::side::connector, lane), std::move(over[0]), made.ends[0]));
  both.push_back(
      establish_end(on.open(sealed::side::listener, lane), std::move(over[1]), made.ends[1]));
  co_await when_all(std::move(both));
  co_return made;
}

}  // namespace tandem::test
