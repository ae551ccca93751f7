#pragma once

#include <memory>
#include <mutex>
#include <tandem/accelerator.hpp>
#include <vector>

#include "progress.hpp"

namespace tandem::c {

/// An accelerator as the operations of a job use it: what callers' streams have to reach before an
/// operation starts, and what waits on streams until it is complete.
class device_side {
 public:
  /// A point in a stream's work, on a stream of its own, so that waiting for it waits for nothing
  /// that is queued later.
  using point = std::shared_ptr<device_stream>;

  /// On the loop.
  device_side(progress& loop, accelerator& on);

  /// Any thread. @par Errors thrown: `errc::bad_input` for a stream that is being captured into a
  /// graph; `device_failed`.
  point mark(accelerator::stream of);
  /// Any thread: later work on the stream waits until the hold is released. @par Errors as
  /// `device_watch::hold`.
  stream_hold hold(accelerator::stream which) { return watch_.hold(which); }
  bool can_hold() const noexcept { return on_.facts().has_stream_memory_ops; }
  /// On the loop.
  asio::awaitable<void> reached(point what);

 private:
  accelerator& on_;
  device_watch watch_;
  std::mutex mutex_;
  std::vector<point> free_;
};

}  // namespace tandem::c
