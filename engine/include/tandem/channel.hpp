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

/// Capabilities and limits of a channel; constant for its lifetime.
struct channel_limits {
  std::vector<memory_kind> kinds;     ///< memory it reads and writes
  std::size_t max_message_bytes = 0;  ///< longest message
  std::size_t eager_bytes = 0;        ///< up to this size a message may be sent eagerly
  std::size_t chunk_bytes = 0;        ///< longer messages are sent in chunks of this size
  std::size_t max_flows = 0;          ///< flows between two ranks
};

/// Traffic in both directions since the channel was made.
struct channel_stats {
  std::uint64_t messages_sent = 0, messages_received = 0;
  std::uint64_t bytes_sent = 0, bytes_received = 0;  ///< payload
  std::uint64_t unexpected_bytes = 0;       ///< buffered now for receives not yet posted
  std::uint64_t unexpected_bytes_peak = 0;  ///< its maximum so far; bounded by the credits
};

/// One rail of a multi-rail channel: name, state and traffic.
struct rail_stats {
  std::string name;         ///< "eth1 10.0.1.2 - 10.0.1.3:4000": interface, local and remote end
  std::string_view state;   ///< "up", "suspect", "lost", "absent"
  std::uint32_t epoch = 0;  ///< incremented by every reconnection
  std::uint64_t bytes_arrived = 0;   ///< of those sent, acknowledged; headers included
  double bytes_per_s = 0;            ///< rate of those, as last measured; 0: never
  std::uint64_t bytes_received = 0;  ///< in complete packets; headers included
  std::uint32_t times_lost = 0;
  std::string why_lost;  ///< reason of the last loss; empty: never lost
};

/// A message-oriented connection to one peer that carries many independent flows.
///
/// The k-th send on a flow matches the k-th receive on that flow at the other end, independently of
/// other flows. Short messages (`limits().eager_bytes`) are sent eagerly while the receiver's
/// credits last; longer ones use rendezvous: they are announced, and their data moves directly into
/// the receive's view once a receive of at least their length is posted.
///
/// @par Lifetime  A view given to `send` or `recv` belongs to the channel until the operation
///   completes. An open channel keeps its execution context running. Destroying the channel closes
///   it; pending operations still complete, with `errc::channel_closed`.
/// @par Executor  All calls and completions on `get_executor()`, on the one thread that
///   runs its io_context. Any number of operations may be pending.
/// @par Cancellation  Terminal, by the coroutine's cancellation slot or `cancel`. A queued
///   operation has no effect. A receive that is being filled completes at once, or as soon as no
///   NIC can write to its view, and the rest of its message is dropped; a send that is being
///   written completes when the current chunk is written and no NIC reads it, and the peer's
///   receive fails with `errc::message_cancelled`.
/// @par Errors  `tandem::error` with rank, peer, rail, phase and bytes. A truncated or cancelled
///   message and an expired deadline end that one operation; every other error ends the channel.
class channel {
 public:
  virtual ~channel() = default;
  virtual asio::any_io_executor get_executor() const noexcept = 0;
  virtual const channel_limits& limits() const noexcept = 0;
  virtual channel_stats stats() const noexcept = 0;
  /// The rails of a multi-rail channel; empty for others.
  virtual std::vector<rail_stats> rails() const { return {}; }
  /// True if the NICs that carry this channel currently transfer this view zero-copy, in place
  /// (`fabric::register_memory`); for an empty view: whether such NICs carry the channel at all.
  /// Such a view of device memory may be given to `start` although `limits().kinds` lacks its kind;
  /// if those NICs are lost meanwhile, it is staged through host memory.
  virtual bool reaches(const const_view& /*view*/) { return false; }

  /// Sends one message. Completes when the view can be reused, possibly before the peer has
  /// received the message.
  asio::awaitable<void> send(flow_id flow, const_view message);

  /// Receives the next message of a flow and returns its length in bytes.
  /// `errc::message_truncated` if it is longer than the view: nothing is written and the message is
  /// dropped.
  asio::awaitable<std::size_t> recv(flow_id flow, mutable_view into);

  /// Closes the local end immediately and sends the peer a close frame. Every pending and later
  /// operation fails with `errc::channel_closed`, those of the peer with `errc::peer_closed`. Never
  /// blocks; idempotent. A peer that does not receive the close within seconds, or is in the middle
  /// of a chunk that is too long to buffer (tcp: 4 MiB), sees `errc::peer_lost`.
  void close() noexcept;

  /// As `close`, with the reason that operations report: propagates one failure to every rank.
  virtual void fail(const error& reason) noexcept = 0;

  /// Starts an operation. True: it has completed already and `complete` will not be called.
  /// False: `complete` is called later. A deadline left at its maximum means the channel's default.
  virtual bool start(operation& op) = 0;
  /// Spins for about a microsecond until an operation that `start` left pending completes, if
  /// polling needs no system call and the loop has a core of its own: two ranks that answer each
  /// other save a suspension and a round of the loop. True: it has completed and `complete` will
  /// not be called. Completes no other operation.
  virtual bool linger(operation& /*op*/) { return false; }
  /// Makes progress without waiting for the loop's next round, if that needs no system call: for a
  /// channel on top of this one that starts many operations at once. Operations may complete
  /// inside; not re-entrant.
  virtual void look() {}
  /// Requests cancellation; `complete` still follows, with operation_aborted or, if it was too
  /// late, with the result.
  virtual void cancel(operation& op) noexcept = 0;
};

}  // namespace tandem
