/// Messages between the GPUs of two ranks in the order of streams.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tandem/accelerator.hpp>
#include <tandem/communicator.hpp>

#pragma GCC visibility push(default)

namespace tandem {

namespace detail {
class peer_watch;
class stream_lane;
}  // namespace detail

/// Messages between the GPUs of this rank and of one other on the same host, which copy engines
/// carry out in the order of streams, while no processor takes part.
///
/// A receive tells the sender where its view is, and queues its part on a stream of its own, as the
/// send does when it knows: the receiver's stream tells when the view may be written and waits
/// until it was, the sender's waits for the one, copies, and tells the other. They tell each other
/// by words of memory that both processes map and streams wait for (`accelerator::await_value`).
///
/// The k-th send of a rank matches the k-th receive of the other. Sends are made one at a time, and
/// so are receives. Before the call, `sends()` or `receives()` waits for an event of the caller's
/// stream; after it, that waits for one which is recorded behind the call.
///
/// @par Cost  Two messages of up to 64 bytes for each, and some us of both processors, which are
///   hidden while streams are busy.
/// @par Errors  as of messages; `device_failed`; the reason of `abort`. After an error nothing more
///   can be sent or received.
/// @par Failure  When the job fails, or 1 s after the peer has left, the handler is called, once,
/// on
///   the communicator's executor: it has to call `abort`, which lets all streams go on. A copy that
///   is queued is not revoked: it may still write into the view of a receive that has failed, until
///   the sender's stream has reached it or its process has ended.
/// @par Executor  All calls on that of the communicator, which outlives this.
class stream_messages {
 public:
  /// Memory that other processes can map (`fabric::locate_memory`), zeroed, and its owner.
  struct shared_words {
    mutable_view memory;
    std::shared_ptr<const void> owner;
  };
  /// Its length, at least.
  static constexpr std::size_t words_bytes = 4096;

  /// What `make` has made.
  struct made {
    std::unique_ptr<stream_messages> messages;  ///< null on both ranks if it is not possible
    std::string why_not;
  };

  using failure_handler = std::function<void(const error& why)>;
  /// Called by both ranks. @param words  of this rank
  /// @par Cost  Two short messages each way. @par Errors  as of messages.
  static asio::awaitable<made> make(communicator& over, int peer, accelerator& of,
                                    shared_words words, failure_handler what);
  /// Waits until its streams are idle, for up to a second; memory that they still use then is never
  /// freed.
  ~stream_messages();
  stream_messages(const stream_messages&) = delete;
  stream_messages& operator=(const stream_messages&) = delete;

  accelerator::stream sends() const noexcept;
  accelerator::stream receives() const noexcept;

  /// Whether it is queued, when the other rank has made its receive; false: both ranks make it as
  /// an ordinary message. It is queued where both views are on the ranks' devices and in
  /// allocations that the other rank has mapped, which begins with the first call that uses them.
  asio::awaitable<bool> send(const_view message);
  /// Queues it at once, and returns its number, which is not 0; then `answer` follows. 0: both
  /// ranks make it as an ordinary message.
  asio::awaitable<std::uint32_t> recv(mutable_view into);

  /// What became of a receive that was queued.
  struct outcome {
    /// False: the message has to be received as an ordinary one into the same view, when the
    /// caller's stream has reached the receive; then `release` lets `receives()` go on.
    bool is_queued = false;
    std::size_t bytes = 0;  ///< of the message; more than the view's: it was dropped
  };
  /// Waits until the other rank has made the send that matches the next receive which was queued.
  asio::awaitable<outcome> answer();
  /// @param number  of a receive
  void release(std::uint32_t number) noexcept;

  /// Lets all streams go on; later calls throw `why`.
  void abort(const error& why) noexcept;

 private:
  stream_messages(communicator& over, int peer, accelerator& of);
  asio::awaitable<void> wait_for_room(detail::stream_lane& in);
  void throw_if_aborted() const;

  const std::shared_ptr<detail::group> over_;
  const int peer_;
  accelerator& device_;
  std::unique_ptr<detail::stream_lane> sends_, receives_;
  std::shared_ptr<const error> aborted_;
  std::unique_ptr<detail::peer_watch> watch_;
};

}  // namespace tandem

#pragma GCC visibility pop
