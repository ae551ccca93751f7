#pragma once

#include <memory>
#include <string>
#include <tandem/detail/connect_failure.hpp>
#include <vector>

#include "fabric/fabric_base.hpp"
#include "transports/rails/link.hpp"
#include "transports/rails/nic/carrier_watch.hpp"
#include "transports/rails/nic/nic.hpp"
#include "transports/rails/nic/pairing.hpp"
#include "transports/rails/rdma_lanes.hpp"

namespace tandem::rails {

/// A rank's channels over rails to all others, connected on demand. It listens on every rail. Of
/// two ranks, the one whose first connection is kept connects all lanes, and reconnects lost ones.
class mesh final : public transport::fabric_base {
 public:
  using fabric_base::fabric_base;
  std::string_view kind() const noexcept override { return "rails"; }
  asio::awaitable<void> open() override;
  region register_memory(mutable_view memory, const dmabuf& exported) override {
    return {memory, rdma_.register_memory(memory, exported)};
  }

 private:
  /// One lane to a peer, on the connecting side.
  struct route {
    asio::ip::tcp::endpoint to;
    asio::ip::address from;
    std::size_t rail = 0;  ///< of local_rails_
    std::size_t nic = 0;
    bool peer_is_local = false;
    bool rdma = false;
    bool is_standby = false;
    std::string name;
  };
  using routes = std::vector<route>;

  asio::awaitable<void> connect_peer(int peer) override;
  transport::handshake_status check_hello(const transport::hello& remote) noexcept override;
  void accept_tcp_peer(sealed::connection incoming, const transport::hello& remote);
  void accept_rdma_peer(std::size_t rail, sealed::connection incoming,
                        const transport::hello& remote);
  asio::awaitable<void> set_up_rdma_lane(std::size_t rail, sealed::connection incoming,
                                         transport::hello remote, std::shared_ptr<link> over);
  void ended() noexcept override;
  void carrier_lost(int index);
  /// Probes of the peer take the TCP routes.
  void use_for_probes(int peer, const routes& all);

  static constexpr std::size_t max_lanes = 64;  // to one peer

  void reserve_for(const std::vector<rail_end>& rails) const;
  void open_rail(const rail_end& end);
  void add_routes(routes& all, const pairing& found, const std::vector<published_rail>& remote,
                  bool rdma) const;
  settings for_setting_up() const;
  std::string name_over_rdma(std::size_t rail, const asio::ip::address& peer) const;
  std::string_view interface_of(const asio::ip::address& local) const noexcept;
  asio::awaitable<routes> find_routes(int peer);
  asio::awaitable<std::unique_ptr<lane_connection>> connect_lane(
      int peer, const route& by, std::uint32_t rail, std::uint32_t epoch,
      std::chrono::milliseconds limit, transport::hello& answer,
      detail::connect_tries* tries = nullptr);
  error no_rail_to(int peer, const detail::connect_tries& tries) const;
  static asio::awaitable<std::unique_ptr<lane_connection>> reconnect_lane(
      std::shared_ptr<mesh> self, int peer, std::shared_ptr<const routes> all, std::uint16_t lane,
      std::uint32_t epoch, std::string& name);
  /// Looks up, while the store is available, where a connecting rank listens, to probe it later.
  asio::awaitable<void> learn_routes(int peer);
  static asio::awaitable<void> probe_peer(std::shared_ptr<mesh> self, int peer);
  std::shared_ptr<link> make_link(int peer, const protocol::limits& remote, std::size_t lanes,
                                  bool peer_is_local);
  /// The link that an incoming connection belongs to, created for the first one.
  std::shared_ptr<link> link_for(const transport::hello& remote, const asio::ip::address& from);

  std::vector<nic> nics_;
  std::vector<published_rail> local_rails_;
  std::vector<std::size_t> rail_nics_;        // of local_rails_, into nics_
  std::vector<std::shared_ptr<link>> links_;  // by peer
  std::vector<routes> peer_routes_;           // by peer, of those that connect to us
  rdma_lanes rdma_;
  std::shared_ptr<liveness::monitor> monitor_;
  std::unique_ptr<carrier_watch> watch_;
  bool warned_of_egress_ = false;
  std::string rdma_failure_;  // logged last
};

}  // namespace tandem::rails
