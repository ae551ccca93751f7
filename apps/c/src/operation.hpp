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
#include <set>
#include <string_view>
#include <tandem/communicator.hpp>
#include <tandem/detail/cancellable.hpp>
#include <tandem/detail/deferred_calls.hpp>
#include <vector>

#include "device_side.hpp"
#include "progress.hpp"

namespace tandem::c {

/// Which operations are alike: the same function, type of elements, peer, and power of two of
/// bytes.
struct call_kind {
  call_kind() = default;
  call_kind(std::string_view its_name, int its_type, int its_peer, std::size_t bytes) noexcept
      : name(its_name), type(its_type), peer(its_peer) {
    for (; bytes != 0; bytes /= 2) ++log2_bytes;
  }

  std::string_view name;
  int type = -1;
  int peer = -1;
  int log2_bytes = 0;
  auto operator<=>(const call_kind&) const = default;
};

/// The kinds of operations of a job that were carried out once. The first of a kind may load
/// kernels and allocate memory, for which drivers wait for all streams: none may wait for it
/// meanwhile. Any thread.
class known_calls {
 public:
  bool contains(const call_kind& what) const {
    const std::lock_guard lock(mutex_);
    return known_.contains(what);
  }
  void add(const call_kind& what) {
    const std::lock_guard lock(mutex_);
    known_.insert(what);
  }

 private:
  mutable std::mutex mutex_;
  std::set<call_kind> known_;
};

/// What an operation does, on the loop.
using operation_body = std::function<asio::awaitable<void>(class operation_state&)>;

/// An operation in progress, its outcome, and who waits for it. It has a body that the loop runs,
/// or calls of a vendor's library that are queued on a stream (`was_queued`).
class operation_state : public std::enable_shared_from_this<operation_state> {
 public:
  enum class ordering { collective, point_to_point };

  operation_state(progress& loop, ordering order, std::optional<std::chrono::milliseconds> timeout)
      : order(order), timeout(timeout), loop_(loop) {}
  ~operation_state() { leaves_streams(); }
  operation_state(const operation_state&) = delete;
  operation_state& operator=(const operation_state&) = delete;

  const ordering order;
  const std::optional<std::chrono::milliseconds> timeout;
  memory_kind kind = memory_kind::host;  ///< of its buffers; a device if any is on one
  std::size_t bytes = 0;                 ///< received
  int source = -1;                       ///< rank whose message was received

  // Any thread.

  bool is_done() const noexcept { return is_done_.load(std::memory_order_acquire); }
  /// @pre is_done
  const std::exception_ptr& failure() const noexcept { return failure_; }
  /// False: `limit` has passed.
  bool wait(progress::time_point limit);
  /// Makes progress.
  void poll();
  void on_complete(std::function<void()> callback);
  /// Later work on the stream waits until it is complete, or else the caller does.
  void wait_on(accelerator::stream stream);
  /// `wait_on` would not block its caller.
  bool streams_can_wait() const;
  /// Completes it, once.
  void finish(std::exception_ptr failure);
  progress& loop() const noexcept { return loop_; }

  /// Before it is started: it begins when the stream has done the work that is on it now.
  void begin_after(std::shared_ptr<device_side> side, accelerator::stream stream);
  bool begins_after_stream() const noexcept { return begin_ != nullptr; }
  const device_side::point& beginning() const noexcept { return begin_; }

  /// Before it is started: threads, not streams, wait for it if it is the first of its kind.
  void set_kind(std::shared_ptr<known_calls> among, const call_kind& what) {
    known_ = std::move(among);
    kind_of_call_ = what;
  }

  /// Before it is started: the device of its buffers.
  void set_use(device_use& of) noexcept { use_ = &of; }
  /// Null: all are in host memory.
  const device_use* use() const noexcept { return use_; }
  /// The loop calls the driver for it, until it is queued or complete. @pre set_use
  void uses_driver() noexcept {
    if (!is_driver_user_.exchange(true)) ++use_->driver_users;
  }

  /// Before it is given to a vendor's library: it will be queued, or given to channels after all.
  void may_be_queued() noexcept {
    is_routed_ = false;
    if (!is_counted_.exchange(true)) tandem::detail::deferred_calls::of_process().count_streams(+1);
  }
  /// In a batch that was not launched yet.
  void set_in_batch(bool is) noexcept { is_in_batch_ = is; }
  bool is_in_batch() const noexcept { return is_in_batch_; }
  /// It was given to channels, which may start it much later, when its stream has reached it.
  void was_submitted() {
    leaves_streams();
    note_routed();
  }
  /// Its calls have been queued, and are complete at `end`.
  void was_queued(std::shared_ptr<device_side> side, device_side::point end);
  /// It is queued on a stream that hands its data over by `by` and waits there until the loop has
  /// carried it out, which begins at `begin`. It is complete at `end`.
  /// @param is_waited_for  the caller's own stream
  void was_staged(std::shared_ptr<device_side> side, std::shared_ptr<staged_block> by,
                  device_side::point begin, device_side::point end, bool is_waited_for);
  /// Before it is queued: its stream waits for the loop, which calls no driver for it.
  void will_be_relayed() noexcept { is_relayed_ = true; }
  /// Whether it does still. No call of the driver.
  bool waits_for_relay();
  /// Before it is queued: it is complete only when the peer has answered, too.
  void expects_answer() noexcept { is_answered_ = false; }
  bool is_answered() const noexcept { return is_answered_.load(std::memory_order_acquire); }
  /// On the loop. @param length  of the message that is received
  void was_answered(int from, std::size_t length);
  /// Whether its calls are complete; finishes it if they are.
  bool finish_if_reached();
  /// Whether they are, of several operations the last one first. @par Errors thrown:
  /// `device_failed`. @param passed  ends that streams have reached, to which its own is added
  bool is_reached(device_side::passed_points& passed) const;
  /// Whether kernels report its end, so that it is known without a call of the driver. @pre queued
  bool ends_by_kernels() const;
  /// Of those: as `finish_if_reached`.
  bool finish_if_carried();
  /// The same on the loop. If it may not call the driver now: whether it is known to be complete.
  bool finish_if_reached_by_turn();

  // On the loop.

  /// The communicator that carries it. @pre started
  communicator& ranks() const noexcept { return *ranks_; }
  /// `begun` is called when it begins or fails to, `ended` when it is complete.
  /// @pre `ranks` exists until then.
  void start(communicator& ranks, operation_body body, std::function<void()> begun,
             std::function<void()> ended);
  void cancel();

 private:
  asio::awaitable<void> run(std::function<void()> begun);
  void finish_when_reached();
  asio::awaitable<void> look_until_reached();
  void note_routed();
  void note_known();
  void leaves_streams() noexcept {
    if (is_counted_.exchange(false)) tandem::detail::deferred_calls::of_process().count_streams(-1);
  }
  bool may_go_on() const noexcept;
  void uses_no_driver() noexcept {
    if (is_driver_user_.exchange(false)) --use_->driver_users;
  }
  /// Whether it is complete when a stream has reached a point, without the loop.
  bool is_on_stream() const noexcept { return end_ && !block_; }
  void let_stream_wait(accelerator::stream stream);
  void let_stream_wait_for_relay(accelerator::stream stream);

  progress& loop_;
  communicator* ranks_ = nullptr;
  operation_body body_;
  cancellable running_;
  std::exception_ptr failure_;
  std::atomic<bool> is_claimed_{false};  ///< by the thread that completes it
  std::atomic<bool> is_done_{false};
  std::atomic<bool> is_routed_{true};  ///< its calls were queued, or never will be
  std::atomic<bool> is_answered_{true};
  std::atomic<bool> is_in_batch_{false};
  std::atomic<bool> is_driver_user_{false};
  std::atomic<bool> is_counted_{false};  ///< among those on streams (`deferred_calls`)
  bool is_relayed_ = false;
  device_use* use_ = nullptr;
  mutable std::mutex mutex_;
  std::vector<std::function<void()>> callbacks_;  ///< one for each handle
  std::shared_ptr<device_side> side_;             ///< of its buffers; null: host memory
  device_side::point begin_;
  device_side::point end_;               ///< of its calls; null: not queued
  std::shared_ptr<staged_block> block_;  ///< by which its stream hands its data over
  bool is_waited_for_ = false;           ///< by streams, in `block_`
  std::vector<stream_hold> holds_;
  std::shared_ptr<known_calls> known_;
  call_kind kind_of_call_;
};

}  // namespace tandem::c

struct tandem_op {
  std::shared_ptr<tandem::c::operation_state> state;

  std::size_t bytes() const noexcept { return received_ ? received_->bytes : state->bytes; }
  int source() const noexcept { return received_ ? received_->source : state->source; }
  /// It is one of the messages of its state, which knows the lengths of none.
  void receives(std::size_t bytes, int source) noexcept { received_ = {bytes, source}; }

 private:
  struct message {
    std::size_t bytes;
    int source;
  };
  std::optional<message> received_;
};
