#include "operation.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/detail/memory_watch.hpp>
#include <thread>
#include <utility>

namespace tandem::c {
namespace {

using std::chrono::microseconds;
using clock = std::chrono::steady_clock;

/// A thread that waits for the device polls this long, then looks at this interval.
constexpr microseconds poll_time{200};
constexpr microseconds poll_interval{50};

}  // namespace

bool operation_state::wait(progress::time_point limit) {
  if (!is_routed_.load(std::memory_order_acquire)) loop_.wait(is_routed_, limit);
  const bool is_queued = [this] {
    const std::lock_guard lock(mutex_);
    return is_on_stream();
  }();
  if (!is_queued) {
    if (!is_done()) loop_.wait(is_done_, limit);
    return is_done();
  }
  const progress::time_point begun = clock::now();
  while (!is_done() && !finish_if_reached()) {
    if (!is_answered()) {
      loop_.wait(is_answered_, limit);
      if (!is_answered()) return is_done();
      continue;
    }
    const progress::time_point now = clock::now();
    if (now >= limit) return false;
    if (now - begun > poll_time) std::this_thread::sleep_for(poll_interval);
  }
  return is_done();
}

void operation_state::poll() {
  if (!finish_if_reached()) loop_.poll();
}

void operation_state::on_complete(std::function<void()> callback) {
  bool is_first_of_queued = false;
  {
    const std::lock_guard lock(mutex_);
    if (!is_done()) {
      is_first_of_queued = callbacks_.empty() && is_on_stream();
      callbacks_.push_back(std::move(callback));
      callback = nullptr;
    }
  }
  if (callback) return loop_.notify_user(std::move(callback));
  if (is_first_of_queued) finish_when_reached();
}

void operation_state::begin_after(std::shared_ptr<device_side> side, accelerator::stream stream) {
  begin_ = side->mark(stream);
  side_ = std::move(side);
}

void operation_state::wait_on(accelerator::stream stream) {
  if (!is_routed_.load(std::memory_order_acquire)) {
    loop_.wait(is_routed_, progress::time_point::max());
  }
  bool is_staged = false, is_relayed = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_done()) return note_known();
    is_staged = block_ != nullptr;
    is_relayed = is_relayed_ && end_;
    if (is_on_stream() && may_go_on() && !is_relayed) return side_->await(stream, end_);
    if (!is_staged && !is_relayed && side_ && side_->can_hold() &&
        (!known_ || known_->contains(kind_of_call_))) {
      holds_.push_back(side_->hold(stream));
      return;
    }
  }
  if (is_relayed) return let_stream_wait_for_relay(stream);
  if (is_staged) return let_stream_wait(stream);
  bool is_queued = false;
  {
    const std::lock_guard lock(mutex_);
    is_queued = end_ != nullptr;
  }
  if (!is_queued) {
    wait(progress::time_point::max());
    return note_known();
  }
  loop_.wait(is_answered_, progress::time_point::max());
  const std::lock_guard lock(mutex_);
  if (!is_done()) side_->await(stream, end_);
}

bool operation_state::streams_can_wait() const {
  if (!is_routed_.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(mutex_);
  if (is_done() || block_ || (is_relayed_ && end_)) return true;
  if (is_on_stream() && may_go_on()) return true;
  return side_ && side_->can_hold() && (!known_ || known_->contains(kind_of_call_));
}

/// A program that goes on may make a call behind the wait for which the driver keeps a lock until
/// the stream has gone on. Then the loop must not need the driver for another operation.
void operation_state::let_stream_wait(accelerator::stream stream) {
  {
    const std::lock_guard lock(mutex_);
    if (block_ && !block_->has_out()) {
      side_->await(stream, end_);
      return loop_.hand_over();
    }
  }
  ++use_->waiting_streams;
  loop_.wait_for_driver_turns();
  if (use_->driver_users.load() > 0) {
    --use_->waiting_streams;
    wait(progress::time_point::max());
    return note_known();
  }
  bool is_counted = false;
  {
    const std::lock_guard lock(mutex_);
    if (!is_done()) {
      side_->await(stream, end_);
      is_counted = !std::exchange(is_waited_for_, true);
    }
  }
  if (!is_counted) --use_->waiting_streams;
  loop_.hand_over();
}

/// The same; the relay has counted it.
void operation_state::let_stream_wait_for_relay(accelerator::stream stream) {
  loop_.wait_for_driver_turns();
  if (use_->driver_users.load() > 0) {
    wait(progress::time_point::max());
    return note_known();
  }
  {
    const std::lock_guard lock(mutex_);
    if (!is_done()) side_->await(stream, end_);
  }
  loop_.hand_over();
}

/// A program that goes on may copy pageable memory behind the wait, or load a kernel, for which the
/// driver keeps a lock until the peer has sent: then this processor must not be needed for that.
bool operation_state::may_go_on() const noexcept {
  return is_answered() || !loop_.needs_processor();
}

void operation_state::note_known() {
  if (known_ && !failure()) known_->add(kind_of_call_);
}

void operation_state::was_queued(std::shared_ptr<device_side> side, device_side::point end) {
  bool has_callback = false;
  {
    const std::lock_guard lock(mutex_);
    if (is_done()) return;
    side_ = std::move(side);
    end_ = std::move(end);
    loop_.count_queued(+1);
    has_callback = !callbacks_.empty();
  }
  if (is_answered()) uses_no_driver();
  note_routed();
  if (has_callback) finish_when_reached();
}

void operation_state::was_staged(std::shared_ptr<device_side> side,
                                 std::shared_ptr<staged_block> by, device_side::point begin,
                                 device_side::point end, bool is_waited_for) {
  if (is_waited_for) ++use_->waiting_streams;
  {
    const std::lock_guard lock(mutex_);
    kind = memory_kind::host;
    side_ = std::move(side);
    begin_ = std::move(begin);
    end_ = std::move(end);
    block_ = std::move(by);
    is_waited_for_ = is_waited_for;
  }
  uses_no_driver();
}

void operation_state::was_answered(int from, std::size_t length) {
  if (is_done()) return;
  bool has_callback = false;
  {
    const std::lock_guard lock(mutex_);
    source = from;
    bytes = length;
    is_answered_.store(true, std::memory_order_release);
    has_callback = !callbacks_.empty();
  }
  uses_no_driver();
  loop_.notify();
  if (has_callback) finish_when_reached();
}

void operation_state::note_routed() {
  if (!is_routed_.exchange(true)) loop_.notify();
}

bool operation_state::finish_if_reached() {
  if (is_done()) return true;
  bool is_over = false;
  std::exception_ptr failure;
  try {
    device_side::passed_points none;
    is_over = is_reached(none);
  } catch (...) {
    failure = std::current_exception();
  }
  if (is_over || failure) finish(failure);
  return is_done();
}

bool operation_state::is_reached(device_side::passed_points& passed) const {
  if (is_done()) return true;
  const std::lock_guard lock(mutex_);
  if (!end_ || !side_ || !is_answered()) return false;
  if (passed.include(end_)) return true;
  if (!side_->has_passed(end_)) return false;
  passed.add(end_);
  return true;
}

bool operation_state::ends_by_kernels() const {
  const std::lock_guard lock(mutex_);
  return end_ && side_ && side_->is_by_kernels(end_);
}

bool operation_state::finish_if_carried() {
  if (is_done()) return true;
  bool is_carried = false;
  {
    const std::lock_guard lock(mutex_);
    is_carried = end_ && side_ && is_answered() && side_->is_carried(end_);
  }
  if (is_carried) finish(nullptr);
  return is_done();
}

bool operation_state::waits_for_relay() {
  const std::lock_guard lock(mutex_);
  return is_relayed_ && !is_done() && end_ && side_ && !side_->is_carried(end_);
}

bool operation_state::finish_if_reached_by_turn() {
  const progress::driver_turn mine(loop_);
  return mine.may_call() ? finish_if_reached() : is_done();
}

/// Where a user waits for the report.
void operation_state::finish_when_reached() {
  loop_.submit([self = shared_from_this()] {
    if (!self->is_answered()) return;  // called again then
    asio::co_spawn(self->loop_.executor(), self->look_until_reached(),
                   [self](std::exception_ptr) {});
  });
}

/// No wait of the device's watch, which would keep calling the driver.
asio::awaitable<void> operation_state::look_until_reached() {
  asio::steady_timer later(loop_.executor());
  detail::growing_interval interval;
  while (!finish_if_reached_by_turn()) {
    later.expires_after(interval.next());
    co_await later.async_wait(asio::use_awaitable);
  }
}

asio::awaitable<void> operation_state::run(std::function<void()> begun) {
  std::exception_ptr failure;
  if (begin_) {
    try {
      co_await side_->reached(std::move(begin_));
    } catch (...) {
      failure = std::current_exception();
    }
  }
  // The next operation starts after this one's body.
  if (begun) asio::post(loop_.executor(), std::move(begun));
  if (failure) std::rethrow_exception(failure);
  ranks_->set_timeout(timeout);
  co_await body_(*this);
}

void operation_state::start(communicator& ranks, operation_body body, std::function<void()> begun,
                            std::function<void()> ended) {
  note_routed();
  ranks_ = &ranks;
  body_ = std::move(body);
  running_.start(loop_.executor(), run(std::move(begun)),
                 [self = shared_from_this(), ended = std::move(ended)](std::exception_ptr failure) {
                   self->finish(failure);
                   self->body_ = nullptr;
                   ended();
                 });
}

/// Work that is queued on a stream cannot be revoked.
void operation_state::cancel() {
  if (body_) running_.cancel();
}

void operation_state::finish(std::exception_ptr failure) {
  if (is_claimed_.exchange(true)) return;
  failure_ = std::move(failure);
  std::vector<std::function<void()>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    is_done_.store(true, std::memory_order_release);
    is_answered_.store(true, std::memory_order_release);
    if (is_on_stream()) loop_.count_queued(-1);
    callbacks = std::move(callbacks_);
    holds_.clear();
    if (block_) {
      block_->release();
      block_.reset();
      end_.reset();
      if (is_waited_for_) --use_->waiting_streams;
    }
    side_.reset();  // on the loop or before the job ends, which owns it
  }
  uses_no_driver();
  leaves_streams();
  note_routed();
  loop_.count_operations(-1);
  loop_.notify();
  for (auto& each : callbacks) loop_.notify_user(std::move(each));
}

}  // namespace tandem::c
