#pragma once

#include <cstdint>
#include <tandem/device_watch.hpp>

#include "reduce/device_kernels.hpp"

namespace tandem::detail {

/// What a group's calls do themselves to the memory of one accelerator of this rank: copies and
/// reductions, queued on a stream of the group's own, in order. Transfers know nothing of streams,
/// so whoever queues something settles before the next transfer touches that memory, and before it
/// is handed back:
///
///   queue->copy(to, from, bytes);
///   if (queue->pending()) co_await queue->settle();
///
/// @par Executor  The group's. @par Errors  `errc::device_failed`.
class device_queue {
 public:
  device_queue(const asio::any_io_executor& executor, accelerator& on);
  /// Waits for what is queued, as `finish`.
  ~device_queue() { finish(); }
  device_queue(const device_queue&) = delete;
  device_queue& operator=(const device_queue&) = delete;

  accelerator& on() const noexcept { return kernels_->on(); }
  /// Compiles what it needs for a type now.
  void prepare(data_type type) { kernels_->prepare(type); }

  void copy(void* to, const void* from, std::size_t bytes);
  /// As kernel_table has them, lengths in elements.
  void combine(data_type type, kernel_work work, void* into, const void* a, const void* b,
               std::size_t count);
  void scale(data_type type, kernel_work work, void* into, const void* from, std::size_t count,
             double by);

  /// Something was queued that is not known to be done.
  bool pending() const noexcept { return done_ != queued_; }
  /// Completes when all that is queued now is done, with the device's error where it has failed.
  /// Cancellation: none. Destroyed meanwhile, it waits as `finish` does.
  asio::awaitable<void> settle();
  /// Blocks until all is done, or the device has failed: as long as copies and kernels take, which
  /// wait for nobody.
  void finish() noexcept;

 private:
  const std::shared_ptr<device_kernels> kernels_;
  const device_stream stream_;
  device_watch watch_;
  std::uint64_t queued_ = 0;
  std::uint64_t done_ = 0;
};

/// Copies in memory of this rank: now on the host, where there is no queue, else queued. @pre both
/// views have one length and lie apart, or are the same.
void copy_block(device_queue* queue, mutable_view to, const_view from);

}  // namespace tandem::detail
