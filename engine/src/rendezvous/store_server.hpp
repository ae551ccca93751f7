#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <map>
#include <memory>
#include <optional>
#include <tandem/detail/log_digest.hpp>

#include "rendezvous/store_connection.hpp"
#include "rendezvous/store_core.hpp"
#include "security/credentials.hpp"

namespace tandem::rendezvous {

/// Key of the address of rank 0's host that ranks of other hosts connected to; empty where all
/// ranks are on that host. It is set before any rank learns that all have joined, so a read of it
/// does not wait.
constexpr auto address_for_other_hosts = "rendezvous/address of rank 0's host";

/// The server end of the store, on rank 0: runs `store_core` over TCP, on the executor of the store
/// object that owns it. Stops by itself when the last rank has left.
class store_server final : public store_connection::observer,
                           public std::enable_shared_from_this<store_server> {
 public:
  /// Null: ranks are not authenticated.
  using trust_pointer = std::shared_ptr<const trust::credentials>;

  /// Binds, listens and starts to accept.
  /// @par Errors `address_in_use`; `bad_input` where this host has no such address.
  static std::shared_ptr<store_server> listen(const asio::any_io_executor& executor,
                                              const tcp::endpoint& at,
                                              store_core::parameters parameters,
                                              trust_pointer trust);

  /// The same on an acceptor that listens.
  static std::shared_ptr<store_server> serve(tcp::acceptor at, store_core::parameters parameters,
                                             trust_pointer trust);

  store_server(tcp::acceptor at, store_core::parameters parameters, trust_pointer trust);
  /// `leave` and `report` of rank 0: the messages to the others are in the kernel on return.
  void leave();
  void report(const error& reason);
  /// Of a shrunk job: `store_core::unreachable` and `absent`.
  void unreachable(int rank);
  std::vector<int> absent() const { return core_.absent(); }
  bool is_meeting() const noexcept { return !stopped_ && core_.is_meeting(); }
  /// Closes everything. Connected ranks see the loss of rank 0, unless it has left before.
  void stop() noexcept;

 private:
  struct peer_entry {
    std::shared_ptr<store_connection> connection;
    frame_splitter splitter{max_hello_bytes};
    socket_addresses addresses;
    bool opening_sent = false;
  };

  void received(store_connection& from, std::string_view bytes) override;
  void bytes_arrived(store_connection& from) override { core_.bytes_arrived(from.id()); }
  void ended(store_connection& from, const error_code& why) override;
  void untrusted(store_connection& from, const trust::tls_session& session) override;
  void bind(const tcp::endpoint& at, const std::string& where);
  void accept();
  void accepted(const error_code& failed, tcp::socket socket);
  void out_of_descriptors(const error_code& failed);
  void process_frames(peer_entry& from);
  void apply_outputs();
  void publish_address();
  void arm_timer();

  store_core core_;
  trust_pointer trust_;
  tcp::acceptor acceptor_;
  asio::steady_timer timer_;
  asio::steady_timer accept_retry_timer_;
  std::map<std::uint64_t, peer_entry> connections_;
  std::uint64_t next_id_ = 1;
  std::optional<std::chrono::steady_clock::time_point>
      out_of_descriptors_since_;  // no descriptor left for accept since then
  log_digest refused_{log_level::warning, "rendezvous"};
  bool accepting_ = false;
  bool stopped_ = false;
  bool published_ = false;
};

}  // namespace tandem::rendezvous
