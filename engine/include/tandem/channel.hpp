/// The channel: ordered messages to one peer, and many of them at once.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tandem/error.hpp>
#include <tandem/memory.hpp>
#include <vector>

#pragma GCC visibility push(default)

namespace tandem {

/// Identifies an ordered stream of messages between two ranks. Flows are independent: none blocks
/// another.
using flow_id = std::uint32_t;

/// The call that a message belongs to, opaque to the channel and sent with it. If the signatures of
/// a message and its receive differ, both fail with `errc::call_mismatch` and get the other's.
struct call_signature {
  std::uint64_t call = 0;
  std::uint32_t history = 0;
  friend bool operator==(const call_signature&, const call_signature&) = default;
};

/// One send, receive or probe, without coroutines: the caller owns the object, starts it on a
/// channel and gets a completion callback. `channel::send` and `recv` are built on it; so can
/// callback APIs and bindings of other languages be.
///
/// The object and its view must not move from `channel::start` until completion; the channel links
/// it into intrusive lists and allocates nothing for it.
struct operation {
  operation() = default;
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;
  /// Unlinks itself. Only a channel that is being abandoned may still reference a pending
  /// operation.
  ~operation() {
    if (next == nullptr) return;
    previous->next = next;
    next->previous = previous;
  }

  /// A probe waits for a message as a receive does and leaves it there; it has no view.
  enum class kind : std::uint8_t { send, recv, probe };
  /// Progress of the operation; appears in an error's context.
  enum class phase : std::uint8_t { idle, queued, announced, moving, done };
  using time_point = std::chrono::steady_clock::time_point;
  /// No deadline; `time_point::max()` means the channel's default.
  static constexpr time_point no_deadline{std::chrono::hours(24 * 365 * 100)};

  /// Atomic: a peer on another thread may change the phase while a cancellation checks whether it
  /// comes too late.
  void move_to(phase next_phase) noexcept {
    std::atomic_ref(at).store(next_phase, std::memory_order_relaxed);
  }
  bool is_over() noexcept {
    return std::atomic_ref(at).load(std::memory_order_relaxed) == phase::done;
  }
  /// Bytes of the message are on their way: cancellation drops the message.
  bool is_moving() noexcept {
    return std::atomic_ref(at).load(std::memory_order_relaxed) == phase::moving;
  }

  kind what = kind::send;
  phase at = phase::idle;
  flow_id flow = 0;
  mutable_view view;  ///< a send only reads it
  time_point deadline = time_point::max();
  call_signature signature;
  /// For a send: the caller overwrites the view right after completion. Then memory that the peer
  /// has mapped is copied for it, not read by it: writing a cache line that another core has just
  /// read is slow.
  bool rewritten = false;

  // The result, valid at completion.
  error_code result;
  std::shared_ptr<const error> failure;  ///< set with `result`: context and advice
  std::size_t bytes = 0;          ///< transferred; for a receive and a probe: the message length
  std::size_t total_bytes = 0;    ///< of the message, if known
  call_signature peer_signature;  ///< with `errc::call_mismatch`

  /// Called exactly once, on the channel's executor, never from inside `start`. Must not throw: the
  /// channel is in an intermediate state and can only be destroyed after an exception. Not
  /// `noexcept` by type, because it may resume a coroutine that ends, and exceptions of that
  /// coroutine's completion handler propagate to the caller of the event loop.
  void (*complete)(operation&) = nullptr;
  /// The execution context is destroyed with the operation pending: free what waits, call nothing.
  void (*destroy)(operation&) noexcept = nullptr;
  void* owner = nullptr;  ///< for the caller's use

  // Private to the channel, while pending.
  operation* next = nullptr;
  operation* previous = nullptr;
  time_point due = time_point::max();  ///< `deadline` or the channel's default
  std::uint64_t tag = 0;
  /// NICs, copy engines and inner channels that may still access the view: a finished operation
  /// completes only when this is 0.
  std::uint32_t pins = 0;
  bool registered = false;  ///< the view is registered for this operation only
};

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
  std::uint64_t unexpected_bytes = 0;                ///< buffered now for receives not yet posted
  std::uint64_t unexpected_bytes_peak = 0;           ///< its maximum so far; bounded by the credits
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
///   it; pending operations still complete, with `errc::channel_closed`. A call that was made but
///   has not begun, because nothing awaits it yet, must not begin after that, as with any object of
///   Asio.
/// @par Executor  All calls and completions on `get_executor()`, on the one thread that
///   runs its io_context. Any number of operations may be pending.
/// @par Cancellation  By the coroutine's cancellation slot or `cancel`. A queued operation has no
///   effect; total and partial cancellation end only such a one, terminal any. A receive that is
///   being filled completes at once, or as soon as no NIC can write to its view, and the rest of
///   its message is dropped; a send that is being written completes when the current chunk is
///   written and no NIC reads it, and the peer's receive fails with `errc::message_cancelled`.
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
  virtual bool is_zero_copy(const const_view& /*view*/) { return false; }

  /// Where the peer finds memory of a device here with `map_memory`: zero unless it has opened the
  /// allocation, which the first call for an allocation asks it to do.
  virtual memory_location locate_memory(const const_view& /*memory*/) { return {}; }
  /// Memory of the peer's device that `locate_memory` there has located, for copies by a device
  /// here; null where that one cannot access it, and once the peer has freed it.
  virtual std::unique_ptr<const mapped_memory> map_memory(const memory_location& /*at*/,
                                                          std::size_t /*bytes*/,
                                                          accelerator& /*by*/) {
    return nullptr;
  }
  /// Has the peer close what was freed here of the memory of devices that it has opened, for
  /// messages or `locate_memory`. Else it does so when it opens the next allocation, which may be
  /// while its streams are busy: drivers wait for them.
  virtual void retire_freed_memory() {}

  /// Sends one message. Completes when the view can be reused, possibly before the peer has
  /// received the message.
  asio::awaitable<void> send(flow_id flow, const_view message);

  /// Receives the next message of a flow and returns its length in bytes.
  /// `errc::message_truncated` if it is longer than the view: nothing is written and the message is
  /// dropped.
  asio::awaitable<std::size_t> recv(flow_id flow, mutable_view into);

  /// Waits for a message of the flow that no posted receive will take, and returns its length in
  /// bytes; the next receive takes it. It may still be arriving. As MPI_Probe.
  asio::awaitable<std::size_t> probe(flow_id flow);

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
  virtual bool spin_wait(operation& /*op*/) { return false; }
  /// Makes progress without waiting for the loop's next round, if that needs no system call: for a
  /// channel on top of this one that starts many operations at once. Operations may complete
  /// inside; not re-entrant.
  virtual void make_progress() {}
  /// Requests cancellation; `complete` still follows, with operation_aborted or, if it was too
  /// late, with the result.
  virtual void cancel(operation& op) noexcept = 0;
};

/// Many concurrent sends and receives without a coroutine for each: windows of messages, halo
/// exchanges, several channels in parallel.
///
///   tandem::batch window(ch.get_executor(), 16);
///   for (const tandem::const_view& each : messages) window.send(ch, flow, each);
///   co_await window.all();
///
/// Each operation starts when it is added, so messages of a flow keep that order. Views must stay
/// valid until `all` has returned.
///
/// @par Executor  The executor of its channels, for every call.
/// @par Cost  Two allocations at construction, none per message: each of sixteen messages of
///   8 bytes through shared memory takes 0.11 us, with `when_all` of coroutines 0.73 us (`tandem
///   perf oneway --bytes 8`).
class batch {
 public:
  /// @param max_messages  maximum number of messages before `all`
  batch(const asio::any_io_executor& executor, std::size_t max_messages);
  /// Cancels pending operations. Await `all` first: until then the views are still in use.
  ~batch();
  batch(const batch&) = delete;
  batch& operator=(const batch&) = delete;

  /// A failure of the message itself is thrown by `all`.
  /// @par Errors `limit_exceeded`: the batch is full; nothing was started.
  void send(channel& on, flow_id flow, const_view message);
  /// The message may be shorter than the view. Returns its index in the batch, from 0.
  std::size_t recv(channel& on, flow_id flow, mutable_view into);

  /// Waits until all operations have completed. Afterwards, also if it throws, the batch is empty
  /// and can be filled again.
  /// @par Errors The first failure, thrown when the last operation has completed; the others are
  ///   cancelled, and their errors are dropped.
  /// @par Cancellation  Terminal: cancels all of them; completes when the last has completed.
  asio::awaitable<void> all();

  /// Number of messages added since the batch was empty.
  std::size_t size() const noexcept;
  /// The length of a completed message. Valid after `all`, until the next message is added.
  std::size_t bytes(std::size_t number) const;

 private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace tandem

#pragma GCC visibility pop
