#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <tandem/log_digest.hpp>
#include <tandem/settings.hpp>

#include "sealed/keys.hpp"
#include "tcp/hello.hpp"
#include "tcp/introduce.hpp"
#include "tcp/spare_descriptor.hpp"

namespace tandem::tcp {

/// The component of its log records.
template <class Socket>
constexpr std::string_view room_of = "tcp";

/// True where the connection leaves the host, so that `settings::encrypt` applies.
template <class Socket>
constexpr bool may_be_sealed = true;

/// Something that accepts connections of other ranks until it is closed.
class door {
 public:
  virtual ~door() = default;
  virtual void close() noexcept = 0;
};

/// Accepts connections, performs their handshakes concurrently, and hands over those that are
/// accepted. An unauthenticated peer costs bounded memory for a bounded time and delays nobody.
///
/// Besides the requirements of `handshake.hpp`, a socket type needs `configure(socket, settings)`
/// and `describe_guest(socket)`. handshake_server_body.hpp has the bodies; each socket type
/// instantiates them once.
template <class Socket>
class basic_greeter final : public door,
                            public std::enable_shared_from_this<basic_greeter<Socket>> {
 public:
  using protocol = typename Socket::protocol_type;
  using acceptor = asio::basic_socket_acceptor<protocol>;
  /// Decides on a valid hello: the status is sent to the peer, and an accepted connection goes to
  /// `on_guest`, with its keys where it is sealed.
  using judge_handler = std::function<verdict(const hello& theirs)>;
  using guest_handler =
      std::function<void(Socket guest, sealed::keys seal, const hello& mine, const hello& theirs)>;

  /// @param key  empty: peers are not authenticated and must have no key either.
  basic_greeter(acceptor at, hello mine, secret key, settings options, judge_handler check,
                guest_handler on_guest);

  void run();
  void close() noexcept override;
  const typename protocol::endpoint& at() const noexcept { return at_; }
  std::uint64_t strangers() const noexcept { return strangers_; }

 private:
  /// Limit of unauthenticated connections; beyond it the oldest is dropped.
  static constexpr std::size_t most_unknown = 64;

  /// State of one handshake.
  struct introduction {
    heard_hello theirs;
    hello answer;
    wire_hello said{};  ///< the answer as sent: with a key, unless refused
    bool known = false;
    std::string why;
  };

  asio::awaitable<void> hear(Socket& guest, introduction& its, bool refuses);
  asio::awaitable<void> decide(Socket& guest, introduction& its);
  asio::awaitable<void> accept_loop();
  void make_room();
  /// @param refuses  the connection uses the spare descriptor, and is refused to free it
  asio::awaitable<void> greet(std::shared_ptr<Socket> guest, bool refuses);
  bool may_refuse_next(const error_code& failure);
  void count_stranger(std::string_view kind, const std::string& who, const std::string& why);

  acceptor acceptor_;
  hello mine_;
  const secret key_;
  const settings options_;
  judge_handler judge_;
  guest_handler on_guest_;
  const typename protocol::endpoint at_;
  std::deque<std::shared_ptr<Socket>> unknown_;  // oldest first
  std::uint64_t strangers_ = 0;
  spare_descriptor spare_;
  std::optional<std::chrono::steady_clock::time_point> lacking_since_;  // descriptors
  log_digest dropped_{log_level::warning, room_of<Socket>};
  bool closed_ = false;
};

using greeter = basic_greeter<asio::ip::tcp::socket>;
extern template class basic_greeter<asio::ip::tcp::socket>;

}  // namespace tandem::tcp
