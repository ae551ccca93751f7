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

/// Whose word a record in the log is.
template <class Socket>
constexpr std::string_view room_of = "tcp";

/// What goes through it leaves the host, and is sealed where the settings want that.
template <class Socket>
constexpr bool may_be_sealed = true;

/// What a rank keeps open for others to come.
class door {
 public:
  virtual ~door() = default;
  virtual void close() noexcept = 0;
};

/// The door: accepts connections, reads their hellos side by side, and hands over those that are
/// welcome. A stranger costs a bounded number of bytes for a bounded time and holds nobody up.
///
/// A kind of socket has, beside what `introduce.hpp` wants of it: `configure(socket, settings)` and
/// `describe_guest(socket)`. greeter_body.hpp has the bodies; each kind instantiates them once.
template <class Socket>
class basic_greeter final : public door,
                            public std::enable_shared_from_this<basic_greeter<Socket>> {
 public:
  using protocol = typename Socket::protocol_type;
  using acceptor = asio::basic_socket_acceptor<protocol>;
  /// Answers a good hello: the verdict goes to the peer, and on welcome the connection to
  /// `on_guest`, with the keys of what follows where it is sealed.
  using judge_handler = std::function<verdict(const hello& theirs)>;
  using guest_handler =
      std::function<void(Socket guest, sealed::keys seal, const hello& mine, const hello& theirs)>;

  /// @param key  empty: whoever comes is believed, and must have none either.
  basic_greeter(acceptor at, hello mine, secret key, settings options, judge_handler judge,
                guest_handler on_guest);

  void run();
  void close() noexcept override;
  const typename protocol::endpoint& at() const noexcept { return at_; }
  std::uint64_t strangers() const noexcept { return strangers_; }

 private:
  /// Connections that have not said, or proven, who they are; beyond it the oldest is dropped.
  static constexpr std::size_t most_unknown = 64;

  /// What came of a guest's first words.
  struct introduction {
    heard_hello theirs;
    hello answer;
    wire_hello said{};  ///< the answer, where it was said: with a key, and not refused
    bool known = false;
    std::string why;
  };

  asio::awaitable<void> hear(Socket& guest, introduction& its, bool refuses);
  asio::awaitable<void> decide(Socket& guest, introduction& its);
  asio::awaitable<void> accept_loop();
  void make_room();
  /// @param refuses  it was accepted with the spare descriptor, which it has to give back
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
