#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <tandem/accelerator.hpp>
#include <tandem/kernel_messages.hpp>
#include <vector>

#include "progress.hpp"
#include "staging.hpp"
#include "word_watch.hpp"

namespace tandem::c {

/// An accelerator as the operations of a job use it: points in the work of streams, which
/// operations and other streams wait for.
class device_side {
  class event_pool;
  struct stream_point;

 public:
  /// A point in a stream's work. May outlive this object.
  using point = std::shared_ptr<const stream_point>;

  /// On the loop. @param streams_wait  whether `hold` is to be used
  device_side(progress& loop, accelerator& on, bool streams_wait);

  accelerator& on() const noexcept { return on_; }
  device_use& use() const noexcept { return use_; }

  // Any thread.

  /// The point behind the work that is on the stream now. @par Errors thrown: `errc::bad_input` for
  /// a stream that is being captured into a graph; `device_failed`.
  point mark(accelerator::stream of);
  /// @par Errors thrown: `errc::bad_input` for such a stream.
  void require_no_capture(accelerator::stream of) const;
  /// What a stream does with a block that was queued: the point at which it is filled, and the one
  /// behind all, on `out`. Both pass without a call of the driver. @param is_awaited  whether other
  /// streams are to wait for it, too
  point filled(std::shared_ptr<staged_block> which);
  point emptied(std::shared_ptr<staged_block> which, accelerator::stream out, bool is_awaited);
  /// The end of messages that kernels on that stream carry out, which pass without a call, too; or
  /// of what is on the stream behind them. @param is_awaited  as above
  point carried(std::span<const kernel_messages::end> which, accelerator::stream on,
                bool is_awaited) const;
  point behind(std::span<const kernel_messages::end> which, accelerator::stream on) const;
  /// Of those: whether kernels have carried the messages, without a call.
  bool is_carried(const point& what) const noexcept;
  /// Whether that alone is the point.
  bool is_by_kernels(const point& what) const noexcept;
  staging& blocks() noexcept { return *blocks_; }
  bool has_passed(const point& what) const;
  /// Points that streams are known to have passed: what comes before them on the same stream needs
  /// no call of the driver.
  class passed_points {
   public:
    /// @pre `what` was marked before those that were added
    bool include(const point& what) const noexcept;
    void add(const point& what);

   private:
    boost::container::small_vector<point, 4> last_;  ///< one of each stream
  };
  /// Later work on the stream waits for the point.
  void await(accelerator::stream which, const point& what);
  /// Later work on the stream waits until the hold is released. @pre can_hold
  stream_hold hold(accelerator::stream which) { return watch_.hold(which); }
  bool can_hold() const noexcept { return can_hold_; }

  // On the loop, on streams of its own. Not cancelled: a device cannot be stopped.

  /// Waits for the point, and for nothing that is queued later.
  asio::awaitable<void> reached(point what);
  /// Copies between memory of this device, or of one that it can access, and the host's.
  asio::awaitable<void> copy(void* to, const void* from, std::size_t bytes);

 private:
  device_stream take_stream();

  accelerator& on_;
  device_use& use_;
  const bool can_hold_;
  const std::shared_ptr<event_pool> events_;
  const std::shared_ptr<staging> blocks_;
  device_watch watch_;
  const std::shared_ptr<word_watch> words_;
  std::vector<device_stream> free_streams_;
};

}  // namespace tandem::c
