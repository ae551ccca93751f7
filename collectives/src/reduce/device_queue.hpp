#pragma once

#include <cstdint>
#include <tandem/accelerator.hpp>

#include "device_kernels.hpp"

namespace tandem::detail {

/// Copies and reductions on the memory of one accelerator of this rank, queued in order on a
/// stream.
/// @par Errors  `errc::device_failed`.
class device_work {
 public:
  device_work(std::shared_ptr<device_kernels> kernels, accelerator::stream on) noexcept
      : kernels_(std::move(kernels)), stream_(on) {}

  accelerator& on() const noexcept { return kernels_->on(); }
  /// Compiles or loads the kernels of a type now.
  void prepare(data_type type) { kernels_->prepare(type); }

  void copy(void* to, const void* from, std::size_t bytes);
  /// The operations of kernel_table; counts are in elements.
  void combine(data_type type, kernel_work work, void* into, const void* a, const void* b,
               std::size_t count);
  void scale(data_type type, kernel_work work, void* into, const void* from, std::size_t count,
             double by);

 protected:
  const std::shared_ptr<device_kernels> kernels_;
  accelerator::stream stream_;
  std::uint64_t queued_ = 0;
};

/// The copies and reductions that a group's calls do on the memory of one accelerator of this rank,
/// queued in order on a stream of the group. Transfers are not ordered by streams, so a call waits
/// for its queued work before the next transfer accesses that memory, and before it returns the
/// memory to the caller:
///
///   queue->copy(to, from, bytes);
///   if (queue->pending()) co_await queue->synchronize();
///
/// @par Executor  The group's. @par Errors  `errc::device_failed`.
class device_queue : public device_work {
 public:
  device_queue(const asio::any_io_executor& executor, accelerator& on);
  /// Waits for queued work, as `finish` does.
  ~device_queue() { finish(); }
  device_queue(const device_queue&) = delete;
  device_queue& operator=(const device_queue&) = delete;

  /// Queued work may be incomplete.
  bool pending() const noexcept { return done_ != queued_; }
  /// Completes when all work queued so far is complete; throws the device's error if it has failed.
  /// Not cancellable. Destroying the awaiting coroutine blocks as `finish` does.
  asio::awaitable<void> synchronize();
  /// Blocks until all work is complete or the device has failed: as long as its copies and kernels
  /// take, which do not wait for other ranks.
  void finish() noexcept;

 private:
  const device_stream own_;
  device_watch watch_;
  std::uint64_t done_ = 0;
};

/// Copies within memory of this rank: immediately in host memory (null queue), else queued.
/// @pre both views have the same length and do not overlap, or are identical.
void copy_block(device_work* queue, mutable_view to, const_view from);

}  // namespace tandem::detail
