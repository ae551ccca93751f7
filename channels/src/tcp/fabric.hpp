#pragma once

#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tandem/board.hpp>
#include <tandem/cancellable.hpp>
#include <tandem/channels/tcp.hpp>
#include <tandem/event.hpp>
#include <tandem/fabric.hpp>
#include <vector>

#include "sealed/connection.hpp"
#include "tcp/greeter.hpp"

namespace tandem::tcp {

/// Sees to it that a rank can open what it needs: so many descriptors to listen with, and for each
/// peer. @par Errors thrown: `limit_exceeded`, as `detail::reserve_descriptors`.
void reserve_for_rank(int rank, int size, std::string_view kind, std::size_t acceptors,
                      std::size_t for_each_peer);

/// A rank's channels to all others, made on demand. Either side may connect first; when both do at
/// once, the connection that the lower rank opened stays.
///
/// A mesh over more than one connection for each peer derives from it: what is here of the peers'
/// lives and deaths is the same.
class mesh : public std::enable_shared_from_this<mesh> {
 public:
  mesh(std::shared_ptr<store> meeting, settings options, asio::any_io_executor executor);

  virtual ~mesh() = default;

  virtual std::string_view kind() const noexcept { return "tcp"; }
  std::string_view kind_to(int) const noexcept { return kind(); }
  /// Opens the door and publishes its address.
  virtual asio::awaitable<void> open();
  asio::awaitable<std::reference_wrapper<channel>> to(int peer);
  channel* find(int peer) noexcept { return peers_[static_cast<std::size_t>(peer)].made.get(); }
  void fail(const error& reason, bool tell_others) noexcept;
  void close() noexcept;
  virtual region register_memory(mutable_view memory, const dmabuf& /*exported*/) {
    return {memory, nullptr};
  }
  virtual std::shared_ptr<board> share_board(std::span<const int> /*members*/,
                                             std::string& /*place*/) {
    return nullptr;
  }
  bool is_over() const noexcept { return closed_ || failed_.has_value(); }

  int rank() const noexcept { return mine_.from; }
  int size() const noexcept { return mine_.size; }
  asio::any_io_executor get_executor() const noexcept { return executor_; }

 protected:
  /// Connects to a peer that is not there yet, and installs it.
  virtual asio::awaitable<void> dial_peer(int peer);
  virtual verdict judge_guest(const hello& theirs) noexcept;
  virtual void take_guest(sealed::connection guest, const hello& mine, const hello& theirs);
  /// The mesh is over: closes what else would keep the loop running.
  virtual void ended() noexcept {}
  /// Why it is over, if that is no orderly end.
  const std::optional<error>& failure() const noexcept { return failed_; }

  const settings& options() const noexcept { return options_; }
  const secret& key() const noexcept { return key_; }
  /// Who this rank is, as it says to a peer.
  hello introduction(int peer) const noexcept;
  /// Listens at a local address; returns the port. Guests go to `take_guest`.
  std::uint16_t open_door(const std::string& address);
  /// The same with other settings, for another kind of guests.
  std::uint16_t open_door(const std::string& address, const settings& with,
                          greeter::guest_handler take);
  /// Closes it when the job is over here.
  void keep_open(std::shared_ptr<door> opened);
  /// As `reserve_for_rank`, of this one.
  void reserve(std::size_t acceptors, std::size_t for_each_peer) const;
  void watch_store();
  asio::awaitable<void> publish(std::string name, std::string value);
  asio::awaitable<std::string> look_up(std::string name);
  /// The channel to a peer, unless there is one or the job is over: then it is closed.
  void install(int peer, std::unique_ptr<channel> made);
  /// For a link that loses its peer: rank 0's word on who died first is awaited.
  std::function<bool(const error&)> lost_handler();
  /// For a link whose peer is silent: all ranks hear it at once.
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
  asio::awaitable<void> blame_later(error reason);
  void check_peer(int peer) const;

  std::shared_ptr<store> store_;
  const settings options_;
  const asio::any_io_executor executor_;
  const secret key_;
  hello mine_;
  std::vector<std::shared_ptr<door>> doors_;
  std::vector<peer_state> peers_;
  event changed_;
  asio::steady_timer grace_;
  std::optional<error> failed_;
  bool blaming_ = false;
  bool closed_ = false;
};

}  // namespace tandem::tcp
