#include <fmt/format.h>

#include <algorithm>
#include <tandem/log.hpp>

#include "transports/rails/mesh.hpp"

namespace tandem::rails {

/// Reserves descriptors for all lanes if every rail reaches each peer, and for the carrier watch.
void mesh::reserve_for(const std::vector<rail_end>& rails) const {
  std::size_t acceptors = 2, lanes = 0;
  for (std::size_t i = 0; i < rails.size(); ++i) {
    const std::size_t kinds = rdma_.has(i) ? 2 : 1;
    acceptors += (kinds + 1) * rails[i].addresses.size();  // and a socket for probes
    lanes += options().rail_streams + kinds - 1;
  }
  reserve(acceptors, std::min(lanes, max_lanes));
}

void mesh::open_rail(const rail_end& end) {
  const std::size_t number = local_rails_.size();
  published_rail& rail = local_rails_.emplace_back();
  rail.interface = nics_[end.nic].name;
  rail_nics_.push_back(end.nic);
  const auto accept_with = [this](auto take) {
    return
        [weak = weak_from_this(), take](asio::ip::tcp::socket incoming, sealed::keys seal,
                                        const transport::hello&, const transport::hello& remote) {
          const auto self = std::static_pointer_cast<mesh>(weak.lock());
          if (self) take(*self, {std::move(incoming), std::move(seal)}, remote);
        };
  };
  for (const nic_address& at : end.addresses) {
    const std::string address = at.where.to_string();
    listen_endpoint opened{at.where, at.prefix};
    opened.port = listen_over_tcp(
        address, options(),
        accept_with([](mesh& self, sealed::connection over, const transport::hello& remote) {
          self.accept_tcp_peer(std::move(over), remote);
        }));
    if (!monitor_->listen(at.where, opened.port)) {
      log(log_level::info, "rails",
          fmt::format(
              "{} port {} is not available over UDP: if this rank's loop is busy for longer "
              "than the peer timeout, others count it as lost",
              address, opened.port));
    }
    if (rdma_.has(number)) {
      opened.rdma_port = listen_over_tcp(address, for_setting_up(),
                                         accept_with([number](mesh& self, sealed::connection over,
                                                              const transport::hello& remote) {
                                           self.accept_rdma_peer(number, std::move(over), remote);
                                         }));
    }
    rail.endpoints.push_back(opened);
  }
}

/// RDMA setup is encrypted, as it sends the keys of this rank's memory.
settings mesh::for_setting_up() const {
  settings sealing = options();
  sealing.encrypt = !key().empty();
  return sealing;
}

void mesh::use_for_probes(int peer, const routes& all) {
  std::vector<liveness::monitor::route> probed;
  for (const route& each : all) {
    liveness::monitor::route found{each.from, {each.to.address(), each.to.port()}};
    const bool is_new = std::ranges::find(probed, found) == probed.end();
    if (!each.rdma && is_new) probed.push_back(std::move(found));
  }
  if (monitor_) monitor_->set_routes(peer, std::move(probed));
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
