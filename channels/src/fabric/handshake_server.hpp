#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <tandem/detail/log_digest.hpp>
#include <tandem/settings.hpp>

#include "fabric/handshake.hpp"
#include "fabric/hello.hpp"
#include "fabric/spare_descriptor.hpp"
#include "sealed/connection.hpp"

namespace tandem::transport {

/// The component of its log records.
template <class Socket>
constexpr std::string_view log_component = "tcp";

/// True where the connection leaves the host, so that `settings::encrypt` applies.
template <class Socket>
constexpr bool may_be_sealed = true;

/// Something that accepts connections of other ranks until it is closed.
class listen_endpoint {
 public:
  virtual ~listen_endpoint() = default;
  virtual void close() noexcept = 0;
};

/// Accepts connections, performs their handshakes concurrently, and hands over those that are
/// accepted. An unauthenticated peer costs bounded memory for a bounded time and delays nobody.
///
/// Besides the requirements of `handshake.hpp`, a socket type needs `configure(socket, settings)`
/// and `describe_peer(socket)`. handshake_server_body.hpp has the bodies; each socket type
/// instantiates them once.
template <class Socket>
class basic_handshake_server final
    : public listen_endpoint,
      public std::enable_shared_from_this<basic_handshake_server<Socket>> {
 public:
  using protocol = typename Socket::protocol_type;
  using acceptor = asio::basic_socket_acceptor<protocol>;
  /// Decides on a valid hello: the status is sent to the peer, and an accepted connection goes to
  /// `on_peer`, with its keys where it is sealed.
  using hello_checker = std::function<handshake_status(const hello& remote)>;
  using peer_handler = std::function<void(Socket incoming, sealed::keys seal, const hello& local,
                                          const hello& remote)>;

  /// @param key  empty: peers are not authenticated and must have no key either.
  basic_handshake_server(acceptor at, hello local, secret key, settings options,
                         hello_checker check, peer_handler on_peer);

  void run();
  void close() noexcept override;
  const typename protocol::endpoint& at() const noexcept { return at_; }
  std::uint64_t rejected_connections() const noexcept { return rejected_connections_; }

 private:
  /// Limit of unauthenticated connections; beyond it the oldest is dropped.
  static constexpr std::size_t max_unauthenticated = 64;

  /// State of one handshake.
  struct handshake_state {
    received_hello remote;
    hello answer;
    wire_hello sent_hello{};  ///< the answer as sent: with a key, unless refused
    bool known = false;
    std::string why;
  };

  asio::awaitable<void> authenticate(Socket& incoming, handshake_state& its, bool refuses);
  asio::awaitable<void> send_status(Socket& incoming, handshake_state& its);
  asio::awaitable<void> accept_loop();
  void drop_oldest();
  /// @param refuses  the connection uses the spare descriptor, and is refused to free it
  asio::awaitable<void> handshake(std::shared_ptr<Socket> incoming, bool refuses);
  bool may_refuse_next(const error_code& failure);
  void count_rejected(std::string_view kind, const std::string& who, const std::string& why);

  acceptor acceptor_;
  hello local_hello_;
  const secret key_;
  const settings options_;
  hello_checker check_hello_;
  peer_handler on_peer_;
  const typename protocol::endpoint at_;
  std::deque<std::shared_ptr<Socket>> unauthenticated_;  // oldest first
  std::uint64_t rejected_connections_ = 0;
  spare_descriptor spare_;
  std::optional<std::chrono::steady_clock::time_point> exhausted_since_;  // descriptors
  log_digest dropped_{log_level::warning, log_component<Socket>};
  bool closed_ = false;
};

using handshake_server = basic_handshake_server<asio::ip::tcp::socket>;
extern template class basic_handshake_server<asio::ip::tcp::socket>;

}  // namespace tandem::transport
