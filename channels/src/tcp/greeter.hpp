#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <tandem/log_digest.hpp>

#include "tcp/connect.hpp"

namespace tandem::tcp {

/// The door: accepts connections, reads their hellos side by side, and hands over those that are
/// welcome. A stranger costs a bounded number of bytes for a bounded time and holds nobody up.
class greeter : public std::enable_shared_from_this<greeter> {
 public:
  /// Answers a good hello: the verdict goes to the peer, and on welcome the connection to
  /// `on_guest`.
  using judge_handler = std::function<verdict(const hello& theirs)>;
  using guest_handler =
      std::function<void(sealed::connection guest, const hello& mine, const hello& theirs)>;

  /// @param key  empty: whoever comes is believed, and must have none either.
  greeter(asio::ip::tcp::acceptor at, hello mine, secret key, settings options, judge_handler judge,
          guest_handler on_guest);

  void run();
  void close() noexcept;
  std::uint16_t port() const noexcept { return port_; }
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

  asio::awaitable<void> hear(asio::ip::tcp::socket& guest, introduction& its);
  asio::awaitable<void> decide(asio::ip::tcp::socket& guest, introduction& its);
  asio::awaitable<void> accept_loop();
  void make_room();
  asio::awaitable<void> greet(std::shared_ptr<asio::ip::tcp::socket> guest);
  void count_stranger(std::string_view kind, const std::string& who, const std::string& why);

  asio::ip::tcp::acceptor acceptor_;
  hello mine_;
  const secret key_;
  const settings options_;
  judge_handler judge_;
  guest_handler on_guest_;
  std::uint16_t port_ = 0;
  std::deque<std::shared_ptr<asio::ip::tcp::socket>> unknown_;  // oldest first
  std::uint64_t strangers_ = 0;
  log_digest dropped_{log_level::warning, "tcp"};
  bool closed_ = false;
};

}  // namespace tandem::tcp
