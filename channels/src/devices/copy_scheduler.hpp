#pragma once

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <tandem/accelerator.hpp>
#include <tandem/detail/device_waits.hpp>
#include <tandem/detail/pending.hpp>
#include <tandem/detail/poller.hpp>
#include <vector>

namespace tandem::devices {

/// Schedules the copies of one device on a stream of their own.
///
/// | engine     | a copy that is requested                                                      |
/// |------------|-------------------------------------------------------------------------------|
/// | idle       | is submitted at once                                                          |
/// | busy       | is queued until the queue fills a call, or the loop has polled all links once |
/// | contended  | as busy, one call at a time; longer ones are cut into `contended_bytes`       |
///
/// A call is one submission to the driver and completes as a whole. Copies in it that are adjacent
/// at both ends are merged into one.
///
/// Between two calls the engine is idle for some us, between the copies of one call it is not:
/// between two H200, 1 MiB each, calls of four are twice as fast as calls of one, however many
/// streams there are (`bench/gpu_copies`, bench/RESULTS.md). A call costs the driver 2 us, and 1 us
/// for each copy in it.
///
/// The engine serves a stream until it is empty, whatever other streams wait; readers of its device
/// and copies to the host wait as well (two H200: 8 bytes wait for as long as copies of 16 MiB
/// follow each other, whatever the stream's priority). Hence the one call at a time while it is
/// contended.
class copy_scheduler final : public std::enable_shared_from_this<copy_scheduler>,
                             private pending_owner,
                             private pollable {
 public:
  /// One that is copying, one queued behind it, and one for what is requested before the completion
  /// of the first is seen.
  static constexpr std::size_t max_calls = 3;
  struct limits {
    std::size_t calls;       ///< in flight, while the engine is not contended
    std::size_t call_bytes;  ///< maximum of a call of several copies: the first waits for the last
    std::size_t contended_bytes;  ///< maximum of any call while the engine is contended
    /// The engine counts as contended for this long after a copy of the other stream, or a reader.
    std::chrono::microseconds other_window, reader_window;
  };
  using time_point = std::chrono::steady_clock::time_point;
  using clock = time_point (*)();

  /// @param watch  on the executor; waits for the copies in flight, and is destroyed first
  copy_scheduler(device_watch& watch, const asio::any_io_executor& executor, const limits& of_calls,
                 clock now = std::chrono::steady_clock::now);
  copy_scheduler(const copy_scheduler&) = delete;
  copy_scheduler& operator=(const copy_scheduler&) = delete;

  /// Another stream of the same engine, destroyed together with this one.
  void share_with(copy_scheduler& other) noexcept { sibling_ = &other; }
  /// One more reader of the device is expected (true), or one less.
  void expect_reader(bool one_more) noexcept;
  /// A reader has submitted its copy, which takes no longer than one call.
  void note_reader() noexcept { last_reader_ = now_(); }

  /// As `copier::copy`. A queued copy that fails completes `wait` with the error. @pre bytes > 0
  void copy(void* to, const void* from, std::size_t bytes, device_wait& wait);
  /// Requested and not complete.
  std::size_t pending_bytes() const noexcept { return waiting_bytes_ + in_flight_bytes_; }
  /// Blocks until nothing is being copied.
  void finish() noexcept;

 private:
  struct request {
    accelerator::piece what;
    device_wait* wait = nullptr;  ///< null: a part; the rest is the first in the queue
    bool is_part = false;         ///< part of a copy that was cut
  };
  /// Waits that complete together with one error.
  struct failed_waits {
    detail::device_waits waits;
    std::shared_ptr<const error> failure;
  };
  /// A call in flight.
  struct batch {
    copy_scheduler* of = nullptr;
    device_wait completion;
    detail::device_waits waits;
    std::size_t bytes = 0;  ///< 0: it is idle
  };

  batch* idle_batch() noexcept;
  bool is_contended() const noexcept;
  void take(bool contended);
  void begin(batch& as, failed_waits& failed);
  bool queue(batch& as, failed_waits& failed);
  void refuse(const request& which, const error& why, failed_waits& failed);
  void merge_adjacent();
  void start_next_soon();
  void post();
  bool poll() override;
  void arm() override;
  void abandon() noexcept override;
  void abandon_queued(detail::device_waits& into) noexcept;
  failed_waits start_next(bool only_full_calls = false);
  bool fills_call() const noexcept { return waiting_bytes_ >= limits_.call_bytes; }
  static void on_complete(device_wait& of, const std::shared_ptr<const error>& failure);
  static void on_destroyed(device_wait& of) noexcept;

  device_watch& watch_;
  const limits limits_;
  const clock now_;
  device_stream stream_;  // made with the first copy
  copy_scheduler* sibling_ = nullptr;
  int readers_ = 0;
  time_point last_requested_{}, last_reader_{};
  std::array<batch, max_calls> batches_;
  std::deque<request> waiting_;
  std::size_t waiting_bytes_ = 0;
  std::size_t in_flight_bytes_ = 0;
  failed_waits refused_;       // failed inside `copy` of another: completed later
  std::vector<request> next_;  // requests of the call that is being submitted
  std::vector<accelerator::piece> pieces_;
  bool poll_pending_ = false;
  bool is_posted_ = false;
};

}  // namespace tandem::devices
