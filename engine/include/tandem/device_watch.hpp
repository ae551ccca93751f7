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

/// Holds a stream until it is released: what a user queues behind an operation that has only begun.
/// Released by its destructor too, so that a failure never leaves a stream waiting. Move-only.
class stream_hold {
 public:
  stream_hold() = default;
  stream_hold(stream_hold&& from) noexcept { *this = std::move(from); }
  stream_hold& operator=(stream_hold&& from) noexcept;
  ~stream_hold() { release(); }

  /// Lets it go on. Harmless twice. Any thread.
  void release() noexcept;

 private:
  friend class device_watch;
  class words;
  std::shared_ptr<words> of_;
  std::uint32_t which_ = 0;
};

/// Waits until a stream has come as far as it had work when it was given to `device_watch::after`.
/// In place until it is told.
struct device_wait {
  /// Told exactly once, on the watch's executor, never from inside `after`; `failure` is null where
  /// all went well. Must not throw.
  void (*done)(device_wait&, const std::shared_ptr<const error>& failure) = nullptr;
  /// The executor goes away with it pending: free what waits, call nothing.
  void (*destroy)(device_wait&) noexcept = nullptr;
  void* owner = nullptr;  ///< for whoever made it

  // The watch's own.
  accelerator::event reached = nullptr;
  std::uint32_t value = 0;
  device_wait* next = nullptr;
};

/// By what a stream tells how far it has come. `events`: the driver is asked, half a microsecond to
/// one each time. `words`: the stream writes a word of pinned memory, which costs the stream more
/// and the loop a glance; needs `has_stream_values`. Between two H200 words gain nothing at 8 bytes
/// and cost a fifth of the rate at 1 MiB, as a write between copies keeps them from overlapping.
enum class stream_signal : std::uint8_t { events, words };

/// Where the order of streams meets the order of coroutines: what an accelerator has done reaches
/// an executor, and a stream waits for what an executor has yet to do.
///
/// While the loop polls, the oldest event or the word of each stream in use is looked at; before it
/// sleeps, a stream of the watch's own waits for those and then has the driver's
/// thread write to a descriptor that Asio waits for. No thread of ours blocks, nothing is
/// called from the driver's thread but write(2), and the streams of others are not held up.
///
/// A wait cannot be cancelled: nobody can take back what is on a stream, so buffers are handed back
/// only once it is done.
/// @par Cost  An event from a pool, recorded and asked; no allocation once the pool has grown.
/// @par Executor  All calls and completions on `get_executor()`.
class device_watch {
 public:
  device_watch(asio::any_io_executor executor, accelerator& of,
               stream_signal by = stream_signal::events);
  /// Those that wait are destroyed, not told.
  ~device_watch();
  device_watch(const device_watch&) = delete;
  device_watch& operator=(const device_watch&) = delete;

  asio::any_io_executor get_executor() const noexcept;
  accelerator& of() const noexcept;

  /// Tells `wait` once all that is on `stream` now is done. A device that fails tells all of them.
  /// @par Errors  thrown: `device_failed` where the event could not be recorded; `bad_input` for a
  ///   stream that is capturing a graph. Nothing waits then.
  void after(accelerator::stream stream, device_wait& wait);

  /// The same for a coroutine. @par Cancellation none: completes when the device is done.
  asio::awaitable<void> reached(accelerator::stream stream);

  /// From here on `stream` waits, until the hold is released.
  /// @par Errors thrown: `errc::unsupported_memory` where streams of this device cannot wait for
  ///   words of memory; `device_failed`.
  stream_hold hold(accelerator::stream stream);

  /// How many wait now.
  std::size_t pending() const noexcept;

 private:
  class state;
  const std::shared_ptr<state> state_;
  std::shared_ptr<stream_hold::words> words_;
};

}  // namespace tandem
