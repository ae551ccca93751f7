/// Memory of the ranks of a group that the others write and read.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tandem/communicator.hpp>
#include <tandem/memory.hpp>

#pragma GCC visibility push(default)

namespace tandem {

namespace asio = boost::asio;

namespace detail {
class window_state;
}

/// A put that has arrived with a notification.
struct window_notification {
  int from = -1;            ///< the rank that put
  std::uint64_t value = 0;  ///< as it was given to `put`
  std::size_t offset = 0;   ///< of the first byte in this rank's memory
  std::size_t bytes = 0;
};

/// A range of memory on each rank of a group, host or device, that the other ranks write by `put`
/// and read by `get` (MPI's RMA windows), with notifications of what has arrived (GASPI's). The
/// rank that owns the memory makes no call.
///
/// Memory in one `shm::shared_buffer` is mapped by the ranks of its host: they access it directly
/// (`is_mapped`), and the owner takes no part but for notifications, which its loop receives. Other
/// memory is accessed by requests, which the owner's loop answers, so it must run; their payloads
/// move as those of messages whose receive is posted: over RDMA straight into the memory, which is
/// registered, between devices by copy engines, elsewhere as messages do.
///
/// What a rank puts to another arrives in the order of the calls, a notification when its bytes are
/// in the memory. Nothing orders puts of different ranks, or gets and the owner's own accesses:
/// notifications and `flush` do.
///
/// @par Lifetime  The communicator, its fabric and the memory outlive the window. Destroying it
///   ends the service of this rank's memory: await `close` first, for after that the requests of
///   others fail, and those that have the memory mapped can still access it.
/// @par Executor  The communicator's.
/// @par Cost  Two messages for a put or a get, one of 40 bytes; where the memory is mapped, one
///   copy, and a message for a notification. Three flows of each pair of ranks for each window that
///   was ever made (`settings::max_flows`).
/// @par Errors  `errc::bad_input`, which changes nothing: no such rank, or bytes beyond its memory.
///   Any other failure, and cancellation once a call has begun, ends the job as that of a
///   collective does.
class window {
 public:
  window(window&&) noexcept;
  window& operator=(window&&) noexcept;
  ~window();

  /// Bytes of the memory of a rank.
  std::size_t bytes(int rank) const;
  /// Whether this process has mapped the memory of that rank.
  bool is_mapped(int rank) const;

  /// Writes to the memory of another rank. Completes when `from` may be reused; `flush` waits until
  /// the bytes are there.
  asio::awaitable<void> put(int to, std::size_t offset, const_view from);
  /// The same; the owner receives `notification` once the bytes are there.
  asio::awaitable<void> put(int to, std::size_t offset, const_view from,
                            std::uint64_t notification);
  /// Reads from the memory of another rank. Completes when the bytes are in `into`.
  asio::awaitable<void> get(int from, std::size_t offset, mutable_view into);
  /// Completes when everything that this rank has put to `to` is there.
  asio::awaitable<void> flush(int to);
  /// The next put with a notification that has arrived here.
  /// @par Errors  `errc::peer_closed` once all other ranks have left, or closed the window.
  /// @par Cancellation  Terminal, without effect.
  asio::awaitable<window_notification> notified();
  /// Every rank calls it: completes when all have, and what they have put is there.
  asio::awaitable<void> close();

 private:
  friend asio::awaitable<window> make_window(communicator& among, mutable_view memory);
  explicit window(std::shared_ptr<detail::window_state> state);
  const std::shared_ptr<detail::window_state>& state() const;

  std::shared_ptr<detail::window_state> state_;
};

/// Makes a window of this memory; every rank of the group calls it, with memory of its own, which
/// may be empty and of any kind that the channels carry. Connects all ranks of the group.
/// @par Errors, cancellation  As of a collective.
asio::awaitable<window> make_window(communicator& among, mutable_view memory);

}  // namespace tandem

#pragma GCC visibility pop
