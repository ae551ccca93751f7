#include <algorithm>

#include "rails/mesh.hpp"

namespace tandem::rails {

/// Reserves descriptors for all lanes if every rail reaches each peer, and for the carrier watch.
void mesh::reserve_for(const std::vector<rail_end>& rails) const {
  std::size_t acceptors = 1, lanes = 0;
  for (std::size_t i = 0; i < rails.size(); ++i) {
    const std::size_t kinds = rdma_.has(i) ? 2 : 1;
    acceptors += kinds * rails[i].addresses.size();
    lanes += options().rail_streams + kinds - 1;
  }
  reserve(acceptors, std::min(lanes, max_lanes));
}

void mesh::open_rail(const rail_end& end) {
  const std::size_t number = mine_rails_.size();
  published_rail& rail = mine_rails_.emplace_back();
  rail.interface = nics_[end.nic].name;
  rail_nics_.push_back(end.nic);
  for (const nic_address& at : end.addresses) {
    const std::string address = at.where.to_string();
    door opened{at.where, at.prefix, open_door(address)};
    if (rdma_.has(number)) {
      opened.rdma_port = open_door(
          address, for_setting_up(),
          [weak = weak_from_this(), number](asio::ip::tcp::socket guest, sealed::keys seal,
                                            const tcp::hello&, const tcp::hello& theirs) {
            const auto self = std::static_pointer_cast<mesh>(weak.lock());
            if (!self) return;
            sealed::connection over(std::move(guest), std::move(seal));
            self->take_rdma_guest(number, std::move(over), theirs);
          });
    }
    rail.doors.push_back(opened);
  }
}

/// RDMA setup is encrypted, as it sends the keys of this rank's memory.
settings mesh::for_setting_up() const {
  settings sealing = options();
  sealing.encrypt = !key().empty();
  return sealing;
}

/// The connecting side finds out when the link is up again.
void mesh::carrier_lost(int index) {
  for (const nic& which : nics_) {
    if (which.index != index) continue;
    for (std::size_t peer = 0; peer < links_.size(); ++peer) {
      const std::shared_ptr<link> over = links_[peer];
      if (over) over->carrier_lost(which);
    }
  }
}

}  // namespace tandem::rails
