#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <tandem/accelerator.hpp>
#include <tandem/error.hpp>
#include <utility>

namespace tandem {

namespace asio = boost::asio;

/// Blocks a stream until it is released: orders a user's later work on the stream after an
/// operation that has only started. The destructor releases it too, so a failure never leaves a
/// stream blocked. Move-only.
class stream_hold {
 public:
  stream_hold() = default;
  stream_hold(stream_hold&& from) noexcept { *this = std::move(from); }
  stream_hold& operator=(stream_hold&& from) noexcept;
  ~stream_hold() { release(); }

  /// Lets the stream continue. Idempotent. Any thread.
  void release() noexcept;

 private:
  friend class device_watch;
  class words;
  std::shared_ptr<words> of_;
  std::uint32_t which_ = 0;
};

/// Waits until the work that was on a stream at `device_watch::after` has completed. Must not move
/// until `done` or `destroy` is called.
struct device_wait {
  /// Called exactly once, on the watch's executor, never from inside `after`; `failure` is null on
  /// success. Must not throw.
  void (*done)(device_wait&, const std::shared_ptr<const error>& failure) = nullptr;
  /// The execution context is destroyed with it pending: free what waits, call nothing.
  void (*destroy)(device_wait&) noexcept = nullptr;
  void* owner = nullptr;  ///< for the caller's use

  // Private to the watch.
  accelerator::event reached = nullptr;
  std::uint32_t value = 0;
  device_wait* next = nullptr;
};

/// How a stream signals completion. `events`: the driver is queried, 0.5 to 1 us each time.
/// `words`: the stream writes a word of pinned memory, which costs the stream more and the loop one
/// load; needs `has_stream_values`. Between two H200 words gain nothing at 8 bytes and cost a fifth
/// of the rate at 1 MiB, because a write between copies keeps them from overlapping.
enum class stream_signal : std::uint8_t { events, words };

/// Connects streams with an executor: completions of stream work are delivered to the executor, and
/// a stream can wait for work of the executor.
///
/// While the loop polls, it checks the oldest event or the word of each stream in use. Before it
/// sleeps, a stream of the watch waits for those and then has the driver's thread write to a
/// descriptor that Asio waits for. No thread of the process blocks, the driver's thread calls
/// nothing but write(2), and other streams are not delayed.
///
/// A wait cannot be cancelled, because queued stream work cannot be revoked: buffers are returned
/// only once it has completed.
/// @par Cost  Recording and querying a pooled event; no allocation once the pool has grown.
/// @par Executor  All calls and completions on `get_executor()`.
class device_watch {
 public:
  device_watch(asio::any_io_executor executor, accelerator& of,
               stream_signal by = stream_signal::events);
  /// Destroys pending waits; `done` is not called.
  ~device_watch();
  device_watch(const device_watch&) = delete;
  device_watch& operator=(const device_watch&) = delete;

  asio::any_io_executor get_executor() const noexcept;
  accelerator& of() const noexcept;

  /// Completes `wait` once all work now on `stream` has completed. A device failure completes all
  /// pending waits with that error.
  /// @par Errors  thrown: `device_failed` if the event could not be recorded; `bad_input` for a
  ///   stream that is being captured into a graph. `wait` is not pending then.
  void after(accelerator::stream stream, device_wait& wait);

  /// The same for a coroutine. @par Cancellation  None: completes when the stream work has.
  asio::awaitable<void> reached(accelerator::stream stream);

  /// Work queued on `stream` from now on waits until the hold is released.
  /// @par Errors  thrown: `errc::unsupported_memory` if streams of this device cannot wait on words
  ///   of memory; `device_failed`.
  stream_hold hold(accelerator::stream stream);

  /// Number of pending waits.
  std::size_t pending() const noexcept;

 private:
  class state;
  const std::shared_ptr<state> state_;
  std::shared_ptr<stream_hold::words> words_;
};

}  // namespace tandem
