#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <string>
#include <string_view>
#include <tandem/error.hpp>
#include <tandem/memory.hpp>
#include <tandem/operation.hpp>
#include <vector>

namespace tandem {

namespace asio = boost::asio;

/// What a channel can do; constant over its life.
struct channel_limits {
  std::vector<memory_kind> kinds;     ///< memory it reads and writes
  std::size_t max_message_bytes = 0;  ///< longest message
  std::size_t eager_bytes = 0;        ///< up to here a message may leave before it is asked for
  std::size_t chunk_bytes = 0;        ///< longer ones travel in pieces of this size
  std::size_t max_flows = 0;          ///< flows a pair of ranks may use
};

/// What went through, both ways, since the channel was made.
struct channel_stats {
  std::uint64_t messages_sent = 0, messages_received = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0;  ///< payload
  std::uint64_t unexpected_bytes = 0;       ///< held now for receives that were not yet posted
  std::uint64_t unexpected_bytes_peak = 0;  ///< the most ever held; bounded by the credits
};

/// One stream of a channel that has several: what it is called, how it is, what it carried.
struct rail_stats {
  std::string name;         ///< "eth1 10.0.1.2 - 10.0.1.3:4000": interface and end here, end there
  std::string_view state;   ///< "up", "suspect", "lost", "absent"
  std::uint32_t epoch = 0;  ///< grows with every new connection
  std::uint64_t bytes_arrived = 0;   ///< of what was sent on it, headers included
  double bytes_per_s = 0;            ///< of those, as last measured; 0 where nothing was
  std::uint64_t bytes_received = 0;  ///< came whole on it from the peer, headers included
  std::uint32_t times_lost = 0;
  std::string why_lost;  ///< the last time; empty: never
};

/// A link to one peer that keeps messages whole and carries many independent flows.
///
/// The k-th send on a flow meets the k-th receive on that flow at the other end, whatever the other
/// flows do. Short messages (`limits().eager_bytes`) leave at once while the receiver's credits
/// last; longer ones are announced and move when a receive of at least their length is posted,
/// straight into its view.
///
/// @par Lifetime  A view given to `send` or `recv` belongs to the channel until the operation
/// completes.
///   An open channel keeps its execution context running. Destroying the channel closes it; pending
///   operations still complete, with `errc::channel_closed`.
/// @par Executor  All calls and completions on `get_executor()`, on the one thread that
///   runs its io_context. Any number of operations may be pending.
/// @par Cancellation  Terminal, by the coroutine's cancellation slot or `cancel`. A queued
/// operation leaves
///   no trace. A receive that is being filled completes at once, or once no NIC can fill it, and
///   the rest of its message is dropped; a send that is being written completes when the piece in
///   hand is written and no NIC reads it, and the peer's receive fails with
///   `errc::message_cancelled`.
/// @par Errors  `tandem::error` with rank, peer, rail, phase and bytes. A truncated or cancelled
/// message
///   and a passed deadline end that one operation; every other error ends the channel.
class channel {
 public:
  virtual ~channel() = default;
  virtual asio::any_io_executor get_executor() const noexcept = 0;
  virtual const channel_limits& limits() const noexcept = 0;
  virtual channel_stats stats() const noexcept = 0;
  /// The rails of a channel that has several; empty for others.
  virtual std::vector<rail_stats> rails() const { return {}; }
  /// True where NICs that carry this channel now move the bytes of this view from or to where they
  /// lie, without a processor (`fabric::register_memory`); of an empty view: whether it is carried
  /// by such NICs. Such a view of a device may be given to `start` though `limits().kinds` lacks
  /// its kind; should the NICs be lost meanwhile, it is copied by way of the host.
  virtual bool reaches(const const_view& /*view*/) { return false; }

  /// Sends one message. Completes when the view may be reused, which may be before the peer has it.
  asio::awaitable<void> send(flow_id flow, const_view message);

  /// Receives the next message of a flow and returns its length in bytes.
  /// `errc::message_truncated` if it is longer than the view: nothing is written and the message is
  /// gone.
  asio::awaitable<std::size_t> recv(flow_id flow, mutable_view into);

  /// Ends the channel here, at once, and tells the peer. Every pending and later operation fails
  /// with `errc::channel_closed`, and those of the peer with `errc::peer_closed`. Never blocks;
  /// harmless twice. A peer that does not hear of it within seconds, or in the middle of a piece
  /// that is too long to keep (tcp: 4 MiB), sees `errc::peer_lost`.
  void close() noexcept;

  /// As `close`, with the reason that operations shall report: how one failure reaches every rank.
  virtual void fail(const error& reason) noexcept = 0;

  /// Starts an operation. True: it is already over and `complete` will not be called.
  /// False: `complete` is called later. A deadline left at its maximum gets the channel's default.
  virtual bool start(operation& op) = 0;
  /// Waits a moment, about a microsecond, for the end of an operation that `start` has left
  /// pending, where a look costs no system call and the loop has a core for itself: two ranks that
  /// answer each other save a suspension and a round of the loop. True: it is over and `complete`
  /// will not be called. Ends no other operation.
  virtual bool linger(operation& /*op*/) { return false; }
  /// For a channel that stands on this one and starts much at once: ends what is over now, as the
  /// loop would in its next round, where that costs no system call. Operations may end inside, so
  /// never call it from inside itself.
  virtual void look() {}
  /// Asks for an early end; `complete` still follows, with operation_aborted or, if it was too
  /// late, the result.
  virtual void cancel(operation& op) noexcept = 0;
};

}  // namespace tandem
