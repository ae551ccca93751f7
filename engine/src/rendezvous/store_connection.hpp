#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <tandem/error.hpp>

#include "security/tls_session.hpp"

namespace tandem::rendezvous {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

/// One connection of the store, on either side: reads continuously, and sends at once what the
/// kernel accepts. A pending operation keeps it alive; the observer is held weakly, so there is no
/// reference cycle.
class store_connection final : public std::enable_shared_from_this<store_connection> {
 public:
  class observer {
   public:
    virtual void received(store_connection& from, std::string_view bytes) = 0;
    /// Encrypted bytes arrived: they are not authenticated yet.
    virtual void bytes_arrived(store_connection& /*from*/) {}
    /// The peer closed the connection, or it failed. Never called after `close` or `finish`.
    virtual void ended(store_connection& from, const error_code& why) = 0;
    /// The peer failed to authenticate, or bytes were forged. The TLS alert is already sent.
    /// Never called after `close` or `finish`.
    virtual void untrusted(store_connection& from, const trust::tls_session& session) = 0;

   protected:
    ~observer() = default;
  };

  /// Takes a connected socket and sets its options: no delay, and keep-alive probes that detect a
  /// vanished host in about 20 s. With a session, everything is encrypted, and the observer
  /// receives nothing before the handshake is done.
  store_connection(tcp::socket socket, std::uint64_t id,
                   std::unique_ptr<trust::tls_session> session);

  void start(std::weak_ptr<observer> to);
  /// Never blocks and never calls the observer. What the kernel accepts is there when this returns,
  /// so it arrives even if the process exits next. The rest is queued.
  void send(std::string bytes);
  /// Bypasses the session: for a peer that does not use TLS.
  void send_unencrypted(std::string bytes);
  /// Closes once the kernel has accepted all queued bytes.
  void finish();
  void close() noexcept;

  std::uint64_t id() const noexcept { return id_; }
  std::size_t queued_bytes() const noexcept { return queued_bytes_; }

 private:
  void read();
  void arrived(observer& to, std::string_view bytes);
  void flush();

  tcp::socket socket_;
  std::uint64_t id_;
  std::unique_ptr<trust::tls_session> session_;
  std::weak_ptr<observer> observer_;
  std::deque<std::string> queue_;
  std::size_t sent_of_first_ = 0;
  std::size_t queued_bytes_ = 0;
  bool finishing_ = false;
  bool closed_ = false;
  std::array<char, 8192> chunk_;
};

/// The local end of a connected socket, and whether the peer is on the same host.
struct socket_addresses {
  std::string local_address;
  bool is_same_host = false;  ///< both ends are on one host
};
socket_addresses addresses_of(const tcp::socket& connected);

/// "127.0.0.1:29500", "[::1]:29500".
std::string endpoint_text(const std::string& host, std::uint16_t port);
std::string endpoint_text(const tcp::endpoint& where);

}  // namespace tandem::rendezvous
