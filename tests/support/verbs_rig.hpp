#pragma once

#include <map>

#include "doubles/rdma/double.hpp"
#include "support/rails_rig.hpp"
#include "transports/rails/verbs/lane_connection.hpp"
#include "transports/rails/verbs/regions.hpp"

namespace tandem::test {

/// Few and short slots, so that every test reaches their limits; no message is registered.
verbs::queue_depths small_queues();
/// The same, but every announced message is registered and written in place.
verbs::queue_depths direct_queues();

/// A device for each lane and side. The last lane over them ends the double, which fails the test
/// where objects are left.
class rdma_network {
 public:
  static std::shared_ptr<rdma_network> make(const asio::any_io_executor& executor,
                                            std::size_t lanes, rdma_double::delivery when,
                                            const verbs::queue_depths& queue_depths);
  static std::shared_ptr<rdma_network> make(const asio::any_io_executor& executor,
                                            std::size_t lanes, rdma_double::delivery when);
  static std::string device_name(int side, std::size_t lane);

  std::shared_ptr<verbs::adapter> open(sealed::side which, std::size_t lane) const;
  /// Sets up the lane connection of one side of a lane.
  awaitable<std::unique_ptr<rails::lane_connection>> establish(sealed::connection over,
                                                               sealed::side which,
                                                               std::size_t lane) const;
  /// The adapter of the lane's last connection, null where it is gone.
  std::shared_ptr<verbs::adapter> in_use(sealed::side which, std::size_t lane) const {
    const auto found = used_.find(device_name(which == sealed::side::connector ? 0 : 1, lane));
    return found == used_.end() ? nullptr : found->second.lock();
  }
  rdma_double& devices() const noexcept { return *world_; }
  /// Registers with all devices of one side, also with those opened later.
  region register_memory(int side, mutable_view memory, const dmabuf& exported) const {
    return {memory, regions_[side]->add(memory, exported)};
  }

 private:
  std::shared_ptr<rdma_double> world_;
  verbs::queue_depths queue_depths_;
  const std::shared_ptr<verbs::regions> regions_[2] = {std::make_shared<verbs::regions>(),
                                                       std::make_shared<verbs::regions>()};
  mutable std::map<std::string, std::weak_ptr<verbs::adapter>> used_;
  asio::any_io_executor executor_;
};

/// Two ends of a channel whose first lanes are RDMA; the others are TCP standby lanes.
struct verbs_rig {
  static awaitable<verbs_rig> connect(settings options, std::size_t lanes, std::size_t rdma_lanes,
                                      rdma_double::delivery when,
                                      const verbs::queue_depths& queue_depths = small_queues());

  std::shared_ptr<rdma_network> network;
  std::shared_ptr<rails_rig> rig;
};

/// Two connected ends of one lane without a link.
struct lane_connection_pair {
  static awaitable<lane_connection_pair> connect(const rdma_network& on, std::size_t lane);

  std::unique_ptr<rails::lane_connection> ends[2];
};

/// A TCP connection of this process with itself.
awaitable<std::array<asio::ip::tcp::socket, 2>> connected_sockets();

}  // namespace tandem::test
