#pragma once

#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <tandem/cancellable.hpp>
#include <tandem/channels/tcp.hpp>
#include <tandem/event.hpp>
#include <tandem/fabric.hpp>
#include <vector>

#include "tcp/greeter.hpp"

namespace tandem::tcp {

/// A rank's channels to all others, made on demand. Either side may connect first; when both do at
/// once, the connection that the lower rank opened stays.
class mesh final : public std::enable_shared_from_this<mesh> {
 public:
  mesh(std::shared_ptr<store> meeting, settings options, asio::any_io_executor executor);

  /// Opens the door and publishes its address.
  asio::awaitable<void> open();
  asio::awaitable<std::reference_wrapper<channel>> to(int peer);
  channel* find(int peer) noexcept { return peers_[static_cast<std::size_t>(peer)].made.get(); }
  void fail(const error& reason, bool tell_others) noexcept;
  void close() noexcept;
  bool is_over() const noexcept { return closed_ || failed_.has_value(); }

  int rank() const noexcept { return mine_.from; }
  int size() const noexcept { return mine_.size; }
  asio::any_io_executor get_executor() const noexcept { return executor_; }

 private:
  struct peer_state {
    std::unique_ptr<channel> made;
    std::optional<error> failure;  // of the last attempt to connect
    bool connecting = false;
    std::shared_ptr<cancellable> attempt;  // the latest
  };

  verdict judge_guest(const hello& theirs) noexcept;
  void install(int peer, std::shared_ptr<link> over);
  asio::awaitable<void> connect(int peer);
  asio::awaitable<void> dial_peer(int peer);
  bool on_lost(const error& reason);
  asio::awaitable<void> blame_later(error reason);
  void check_peer(int peer) const;

  std::shared_ptr<store> store_;
  const settings options_;
  const asio::any_io_executor executor_;
  const secret key_;
  hello mine_;
  std::shared_ptr<greeter> door_;
  std::vector<peer_state> peers_;
  event changed_;
  asio::steady_timer grace_;
  std::optional<error> failed_;
  bool blaming_ = false;
  bool closed_ = false;
};

}  // namespace tandem::tcp
