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

#include "fabric/handshake_server.hpp"
#include "sealed/connection.hpp"

namespace tandem::transport {

/// Makes sure that a rank can open the descriptors it needs, to listen and for each peer. @par
/// Errors thrown: `limit_exceeded`, as `detail::reserve_descriptors`.
void reserve_for_rank(int rank, int size, std::string_view kind, std::size_t acceptors,
                      std::size_t for_each_peer);

/// A rank's channels to all others, made on demand. Either side may connect first; when both do at
/// once, the connection that the lower rank opened stays.
///
/// What the fabrics of all transports share: who may connect, one channel for each peer, and lost
/// peers. A transport adds how it listens (`open`) and connects (`connect_peer`).
class fabric_base : public std::enable_shared_from_this<fabric_base> {
 public:
  fabric_base(std::shared_ptr<store> meeting, settings options, asio::any_io_executor executor);

  virtual ~fabric_base() = default;

  virtual std::string_view kind() const noexcept = 0;
  std::string_view kind_to(int) const noexcept { return kind(); }
  /// Starts to listen and publishes the address.
  virtual asio::awaitable<void> open() = 0;
  asio::awaitable<std::reference_wrapper<channel>> to(int peer);
  channel* find(int peer) noexcept { return peers_[static_cast<std::size_t>(peer)].made.get(); }
  void fail(const error& reason, bool notify_others) noexcept;
  void close() noexcept;
  virtual region register_memory(mutable_view memory, const dmabuf& /*exported*/) {
    return {memory, nullptr};
  }
  virtual memory_location locate_memory(const mutable_view& /*memory*/) { return {}; }
  virtual std::unique_ptr<const mapped_memory> map_memory(int /*peer*/,
                                                          const memory_location& /*at*/,
                                                          std::size_t /*bytes*/) {
    return nullptr;
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
  virtual asio::awaitable<void> connect_peer(int peer) = 0;
  virtual handshake_status check_hello(const hello& remote) noexcept;
  /// Called when the fabric ends: closes what else would keep the loop running.
  virtual void ended() noexcept {}
  /// Why the fabric has ended; empty after `close`.
  const std::optional<error>& failure() const noexcept { return failed_; }

  const settings& options() const noexcept { return options_; }
  /// The address by which this rank reaches the store, where others reach this rank.
  std::string local_address() const { return store_->local_address(); }
  const secret& key() const noexcept { return key_; }
  /// This rank's hello for a peer.
  hello make_hello(int peer) const noexcept;
  /// Accepts connections until the fabric ends. `check_hello` decides on each, and `take` gets
  /// those that it accepts.
  template <class Socket>
  void accept_at(typename basic_handshake_server<Socket>::acceptor at, const settings& with,
                 typename basic_handshake_server<Socket>::peer_handler take);
  /// The same over TCP at a local address; returns the port.
  std::uint16_t listen_over_tcp(const std::string& address, const settings& with,
                                handshake_server::peer_handler take);
  /// `reserve_for_rank` for this rank.
  void reserve(std::size_t acceptors, std::size_t for_each_peer) const;
  void watch_store();
  /// Publishes where this rank listens, in the format of the transport.
  asio::awaitable<void> publish_address(std::string address);
  /// Waits for what the peer publishes.
  asio::awaitable<std::string> find_address(int peer);
  /// Installs the channel to a peer; closes it instead if there is one already or the fabric has
  /// ended.
  void install(int peer, std::unique_ptr<channel> made);
  /// Whether there is still reason to connect to this peer.
  bool wants(int peer) noexcept { return find(peer) == nullptr && !is_over(); }
  /// After a connection that crossed the peer's own, which is expected to be installed here: waits
  /// until it is time to check, in case it failed.
  asio::awaitable<void> wait_for_crossed() const;
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
  [[noreturn]] void throw_failed() const;

  void add_listen_endpoint(std::shared_ptr<listen_endpoint> opened);

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

template <class Socket>
void fabric_base::accept_at(typename basic_handshake_server<Socket>::acceptor at,
                            const settings& with,
                            typename basic_handshake_server<Socket>::peer_handler take) {
  const auto opened = std::make_shared<basic_handshake_server<Socket>>(
      std::move(at), local_hello_, key_, with,
      [weak = weak_from_this()](const hello& remote) {
        const auto self = weak.lock();
        return self ? self->check_hello(remote) : handshake_status::wrong_job;
      },
      std::move(take));
  opened->run();
  add_listen_endpoint(opened);
}

}  // namespace tandem::transport
