#pragma once

#include <tandem.h>

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <tandem/communicator.hpp>
#include <tandem/detail/cancellable.hpp>
#include <vector>

#include "device_side.hpp"
#include "progress.hpp"

namespace tandem::c {

/// What an operation does, on the loop.
using operation_body = std::function<asio::awaitable<void>(class operation_state&)>;

/// An operation in progress: its body, its outcome, and who waits for it.
class operation_state : public std::enable_shared_from_this<operation_state> {
 public:
  enum class ordering { collective, point_to_point };

  operation_state(progress& loop, ordering order, std::optional<std::chrono::milliseconds> timeout,
                  operation_body body)
      : order(order), timeout(timeout), loop_(loop), body_(std::move(body)) {}

  const ordering order;
  const std::optional<std::chrono::milliseconds> timeout;
  std::size_t bytes = 0;  ///< received
  int source = -1;        ///< rank whose message was received

  bool is_done() const noexcept { return is_done_.load(std::memory_order_acquire); }
  /// @pre is_done
  const std::exception_ptr& failure() const noexcept { return failure_; }
  /// Any thread. False: `limit` has passed.
  bool wait(progress::time_point limit);
  void poll() { loop_.poll(); }
  void on_complete(std::function<void()> callback);

  /// Any thread, before `start`: it begins when the stream has done the work that is on it now.
  void begin_after(std::shared_ptr<device_side> side, accelerator::stream stream);
  bool begins_after_stream() const noexcept { return begin_ != nullptr; }
  /// Any thread: later work on the stream waits until it is complete, or else the caller does.
  void hold(accelerator::stream stream);

  // On the loop.

  /// `begun` is called when it begins or fails to, `ended` when it is complete.
  /// @pre `ranks` exists until then.
  void start(communicator& ranks, std::function<void()> begun, std::function<void()> ended);
  void cancel() { running_.cancel(); }
  /// Completes it, once; without `start` for one that was never started.
  void finish(std::exception_ptr failure);

  progress& loop() const noexcept { return loop_; }

 private:
  asio::awaitable<void> run(communicator& ranks, std::function<void()> begun);

  progress& loop_;
  operation_body body_;
  cancellable running_;
  std::exception_ptr failure_;
  std::atomic<bool> is_done_{false};
  std::mutex callback_mutex_;
  std::function<void()> callback_;
  std::shared_ptr<device_side> side_;  ///< of its buffers; null: host memory
  device_side::point begin_;
  std::vector<stream_hold> holds_;
};

}  // namespace tandem::c

struct tandem_op {
  std::shared_ptr<tandem::c::operation_state> state;
};
