#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <deque>
#include <functional>
#include <memory>

#include "tcp/connect.hpp"

namespace tandem::tcp {

/// The door: accepts connections, reads their hellos side by side, and hands over those that are
/// welcome. A stranger costs a bounded number of bytes for a bounded time and holds nobody up.
class greeter : public std::enable_shared_from_this<greeter> {
 public:
  /// Answers a good hello: the verdict goes to the peer, and on welcome the connection to
  /// `on_guest`.
  using judge_handler = std::function<verdict(const hello& theirs)>;
  using guest_handler = std::function<void(std::shared_ptr<link>, const hello& theirs)>;

  greeter(asio::ip::tcp::acceptor at, hello mine, settings options, judge_handler judge,
          guest_handler on_guest);

  void run();
  void close() noexcept;
  std::uint16_t port() const noexcept { return port_; }
  std::uint64_t strangers() const noexcept { return strangers_; }

 private:
  /// Connections that have not said who they are; beyond it the oldest is dropped.
  static constexpr std::size_t most_unknown = 64;

  asio::awaitable<void> accept_loop();
  void make_room();
  asio::awaitable<void> greet(std::shared_ptr<asio::ip::tcp::socket> guest);
  void count_stranger(const std::string& who, const std::string& why);

  asio::ip::tcp::acceptor acceptor_;
  const hello mine_;
  const settings options_;
  judge_handler judge_;
  guest_handler on_guest_;
  std::uint16_t port_ = 0;
  std::deque<std::shared_ptr<asio::ip::tcp::socket>> unknown_;  // oldest first
  std::uint64_t strangers_ = 0;
  bool closed_ = false;
};

}  // namespace tandem::tcp
