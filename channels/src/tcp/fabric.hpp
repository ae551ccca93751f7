#pragma once

#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/detail/board.hpp>
#include <tandem/detail/cancellable.hpp>
#include <tandem/fabric.hpp>
#include <vector>

#include "sealed/connection.hpp"
#include "tcp/handshake_server.hpp"

namespace tandem::tcp {

/// Makes sure that a rank can open the descriptors it needs, to listen and for each peer. @par
/// Errors thrown: `limit_exceeded`, as `detail::reserve_descriptors`.
void reserve_for_rank(int rank, int size, std::string_view kind, std::size_t acceptors,
                      std::size_t for_each_peer);

/// A rank's channels to all others, made on demand. Either side may connect first; when both do at
/// once, the connection that the lower rank opened stays.
///
/// Base class of the meshes of other transports, which share its handling of lost peers.
class mesh : public std::enable_shared_from_this<mesh> {
 public:
  mesh(std::shared_ptr<store> meeting, settings options, asio::any_io_executor executor);

  virtual ~mesh() = default;

  virtual std::string_view kind() const noexcept { return "tcp"; }
  std::string_view kind_to(int) const noexcept { return kind(); }
  /// Starts to listen and publishes the address.
  virtual asio::awaitable<void> open();
  asio::awaitable<std::reference_wrapper<channel>> to(int peer);
  channel* find(int peer) noexcept { return peers_[static_cast<std::size_t>(peer)].made.get(); }
  void fail(const error& reason, bool notify_others) noexcept;
  void close() noexcept;
  virtual region register_memory(mutable_view memory, const dmabuf& /*exported*/) {
    return {memory, nullptr};
  }
  virtual std::shared_ptr<board> share_board(std::span<const int> /*members*/,
                                             std::string& /*place*/) {
    return nullptr;
  }
  bool is_over() const noexcept { return closed_ || failed_.has_value(); }

  int rank() const noexcept { return local_hello_.from; }
  int size() const noexcept { return local_hello_.size; }
  asio::any_io_executor get_executor() const noexcept { return executor_; }

 protected:
  /// Connects to a peer that has no channel yet, and installs the channel.
  virtual asio::awaitable<void> connect_peer(int peer);
  virtual handshake_status check_hello(const hello& remote) noexcept;
  virtual void accept_peer(sealed::connection incoming, const hello& local, const hello& remote);
  /// Called when the mesh ends: closes what else would keep the loop running.
  virtual void ended() noexcept {}
  /// Why the mesh has ended; empty after `close`.
  const std::optional<error>& failure() const noexcept { return failed_; }

  const settings& options() const noexcept { return options_; }
  const secret& key() const noexcept { return key_; }
  /// This rank's hello for a peer.
  hello make_hello(int peer) const noexcept;
  /// Listens at a local address; returns the port. Accepted connections go to `accept_peer`.
  std::uint16_t start_listening(const std::string& address);
  /// The same with other settings and another handler.
  std::uint16_t start_listening(const std::string& address, const settings& with,
                                handshake_server::peer_handler take);
  /// Registers a listen endpoint to be closed with the mesh.
  void add_listen_endpoint(std::shared_ptr<listen_endpoint> opened);
  /// `reserve_for_rank` for this rank.
  void reserve(std::size_t acceptors, std::size_t for_each_peer) const;
  void watch_store();
  asio::awaitable<void> publish(std::string name, std::string value);
  asio::awaitable<std::string> look_up(std::string name);
  /// Installs the channel to a peer; closes it instead if there is one already or the mesh has
  /// ended.
  void install(int peer, std::unique_ptr<channel> made);
  /// For a link that loses its peer: waits for rank 0's report of which rank failed first.
  std::function<bool(const error&)> lost_handler();
  /// For a link whose peer does not answer: reports it to all ranks at once.
  std::function<bool(const error&)> silent_handler();

 private:
  struct peer_state {
    std::unique_ptr<channel> made;
    std::optional<error> failure;  // of the last attempt to connect
    bool connecting = false;
    std::shared_ptr<cancellable> attempt;  // the latest
  };

  asio::awaitable<void> connect(int peer);
  bool on_lost(const error& reason);
  asio::awaitable<void> report_after_grace(error reason);
  void check_peer(int peer) const;

  std::shared_ptr<store> store_;
  const settings options_;
  const asio::any_io_executor executor_;
  const secret key_;
  hello local_hello_;
  std::vector<std::shared_ptr<listen_endpoint>> listen_endpoints_;
  std::vector<peer_state> peers_;
  async_condition changed_;
  asio::steady_timer grace_;
  std::optional<error> failed_;
  bool report_pending_ = false;
  bool closed_ = false;
};

}  // namespace tandem::tcp
