#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <tandem/error.hpp>

#include "trust/tls_session.hpp"

namespace tandem::rendezvous {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

/// One connection of the store, on either side: reads continuously, and sends at once what the
/// kernel accepts. A pending operation keeps it alive; the observer is held weakly, so there is no
/// reference cycle.
class store_link final : public std::enable_shared_from_this<store_link> {
 public:
  class listener {
   public:
    virtual void received(store_link& from, std::string_view bytes) = 0;
    /// Encrypted bytes arrived: they are not authenticated yet.
    virtual void heard(store_link& /*from*/) {}
    /// The peer closed the connection, or it failed. Never called after `close` or `finish`.
    virtual void ended(store_link& from, const error_code& why) = 0;
    /// The peer failed to authenticate, or bytes were forged. The TLS alert is already sent.
    /// Never called after `close` or `finish`.
    virtual void untrusted(store_link& from, const trust::tls_session& session) = 0;

   protected:
    ~listener() = default;
  };

  /// Takes a connected socket and sets its options: no delay, and keep-alive probes that detect a
  /// vanished host in about 20 s. With a session, everything is encrypted, and the observer
  /// receives nothing before the handshake is done.
  store_link(tcp::socket socket, std::uint64_t id, std::unique_ptr<trust::tls_session> session);

  void start(std::weak_ptr<listener> to);
  /// Never blocks and never calls the observer. What the kernel accepts is there when this returns,
  /// so it arrives even if the process exits next. The rest is queued.
  void send(std::string bytes);
  /// Bypasses the session: for a peer that does not use TLS.
  void send_in_the_clear(std::string bytes);
  /// Closes once the kernel has accepted all queued bytes.
  void finish();
  void close() noexcept;

  std::uint64_t id() const noexcept { return id_; }
  std::size_t queued_bytes() const noexcept { return queued_bytes_; }

 private:
  void read();
  void arrived(listener& to, std::string_view bytes);
  void flush();

  tcp::socket socket_;
  std::uint64_t id_;
  std::unique_ptr<trust::tls_session> session_;
  std::weak_ptr<listener> listener_;
  std::deque<std::string> queue_;
  std::size_t sent_of_first_ = 0;
  std::size_t queued_bytes_ = 0;
  bool finishing_ = false;
  bool closed_ = false;
  std::array<char, 8192> chunk_;
};

/// The local end of a connected socket, and whether the peer is on the same host.
struct reached_by {
  std::string local_address;
  bool peer_is_here = false;  ///< both ends are on one host
};
reached_by way_of(const tcp::socket& connected);

/// "127.0.0.1:29500", "[::1]:29500".
std::string show(const std::string& host, std::uint16_t port);
std::string show(const tcp::endpoint& where);

}  // namespace tandem::rendezvous
