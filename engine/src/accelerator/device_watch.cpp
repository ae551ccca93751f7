#include <unistd.h>

#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <optional>
#include <tandem/accelerator.hpp>
#include <tandem/detail/device_waits.hpp>
#include <tandem/detail/pending.hpp>
#include <tandem/detail/poller.hpp>
#include <utility>
#include <vector>

#include "accelerator/doorbell.hpp"
#include "accelerator/stream_flags.hpp"
#include "accelerator/stream_hold_words.hpp"

namespace tandem {
namespace {

constexpr unsigned polls_per_failure_check = 4096;

/// A failed device runs no callback, so a blocked loop polls at this interval too.
constexpr std::chrono::milliseconds recheck_interval{100};

}  // namespace

class device_watch::state final : public std::enable_shared_from_this<device_watch::state>,
                                  private pending_owner,
                                  private pollable {
 public:
  state(asio::any_io_executor executor, accelerator& of, bool by_flags)
      : pending_owner(executor),
        pollable(executor, by_flags ? poll_cost::memory_read : poll_cost::system_call),
        executor_(std::move(executor)),
        of_(of),
        by_flags_(by_flags),
        doorbell_reader_(std::in_place, executor_),
        recheck_timer_(std::in_place, executor_) {
    const int duplicate = ::dup(doorbell_.descriptor());
    if (duplicate < 0) throw error(error_code(errno, boost::system::system_category()));
    doorbell_reader_->assign(duplicate);
  }
  ~state() { free_events(); }

  void after(accelerator::stream stream, device_wait& wait);
  /// Destroys all waits without completing them.
  void end() noexcept;

  const asio::any_io_executor& get_executor() const noexcept { return executor_; }
  accelerator& of() const noexcept { return of_; }
  std::size_t pending() const noexcept { return pending_; }

 private:
  /// One stream with pending waits, oldest first.
  struct queue {
    accelerator::stream stream = nullptr;
    detail::device_waits waits;
    std::optional<stream_flags::flag> flag;  ///< written by the stream; empty: events are queried
    bool is_armed = false;                   ///< the driver rings the doorbell for the first wait
    device_stream doorbell_stream;           ///< carries the callback that rings it
  };
  /// Completed waits. Notified once all queues are consistent: a completion may wait again.
  struct outcome {
    detail::device_waits waits;
    std::shared_ptr<const error> failure;
  };

  bool poll() override;
  void arm() override;
  void abandon() noexcept override { end(); }

  queue& queue_of(accelerator::stream stream);
  void mark_position(queue& of, device_wait& wait);
  bool is_complete(const queue& of, const device_wait& wait);
  void check_for_failure();
  accelerator::event take_event();
  outcome collect();
  void collect(queue& from, outcome& into);
  void take_all(outcome& into) noexcept;
  void complete_all(const outcome& what);
  void arm(queue& which);
  void arm_or_ring(queue& which);
  void wait_for_doorbell();
  void set_pending(std::size_t count) noexcept;
  void recycle_event(device_wait& wait);
  void arm_recheck();
  void free_events() noexcept;

  const asio::any_io_executor executor_;
  asio::any_io_executor work_;  // keeps the loop running while something is pending
  accelerator& of_;
  const bool by_flags_;
  std::optional<stream_flags> flags_;
  unsigned empty_polls_ = 0;
  const doorbell doorbell_;
  // Empty once the executor is gone.
  std::optional<asio::posix::stream_descriptor> doorbell_reader_;
  std::optional<asio::steady_timer> recheck_timer_;
  bool is_waiting_for_doorbell_ = false;
  bool is_recheck_armed_ = false;
  std::vector<queue> queues_;
  std::vector<device_stream> spare_doorbell_streams_;
  std::vector<accelerator::event> spare_events_;
  std::size_t pending_ = 0;
};

void device_watch::state::free_events() noexcept {
  for (const accelerator::event each : spare_events_) of_.free_event(each);
  spare_events_.clear();
}

void device_watch::state::end() noexcept {
  outcome all;
  take_all(all);
  queues_.clear();
  doorbell_reader_.reset();
  recheck_timer_.reset();
  work_ = {};
  detail::device_waits::destroy(all.waits);
}

accelerator::event device_watch::state::take_event() {
  if (spare_events_.empty()) return of_.make_event();
  const accelerator::event taken = spare_events_.back();
  spare_events_.pop_back();
  return taken;
}

/// Few streams are in use at once: a linear search costs less than a table.
device_watch::state::queue& device_watch::state::queue_of(accelerator::stream stream) {
  for (queue& each : queues_) {
    if (each.stream == stream && !each.waits.empty()) return each;
  }
  for (queue& each : queues_) {
    if (!each.waits.empty()) continue;
    each.stream = stream;
    return each;
  }
  queue& made = queues_.emplace_back();
  made.stream = stream;
  return made;
}

/// Queues a flag write or an event behind the work that is on the stream now.
void device_watch::state::mark_position(queue& of, device_wait& wait) {
  if (by_flags_ && !of.flag) {
    if (!flags_) flags_.emplace(of_);
    of.flag = flags_->take();
  }
  wait.reached = nullptr;
  if (of.flag) {
    wait.value = of.flag->write_next(of_, of.stream);
    return;
  }
  const accelerator::event reached = take_event();
  try {
    of_.record(reached, of.stream);
  } catch (...) {
    spare_events_.push_back(reached);
    throw;
  }
  wait.reached = reached;
}

bool device_watch::state::is_complete(const queue& of, const device_wait& wait) {
  return of.flag ? of.flag->has_reached(wait.value) : of_.is_complete(wait.reached);
}

/// A stream of a failed device writes no flag, so every `polls_per_failure_check` polls the driver
/// is queried as well.
void device_watch::state::check_for_failure() {
  if (!by_flags_ || ++empty_polls_ % polls_per_failure_check != 0) return;
  for (const queue& each : queues_) {
    if (each.waits.empty() || !each.flag) continue;
    const accelerator::event probe = take_event();
    spare_events_.push_back(probe);
    of_.record(probe, each.stream);
    of_.is_complete(probe);
  }
}

void device_watch::state::after(accelerator::stream stream, device_wait& wait) {
  if (of_.is_capturing(stream)) {
    throw error(errc::bad_input, "the stream is capturing a graph: its events would never complete",
                "call Tandem outside of graph capture");
  }
  queue& into = queue_of(stream);
  mark_position(into, wait);
  into.waits.push_back(wait);
  if (pending_ == 0) work_ = asio::prefer(executor_, asio::execution::outstanding_work.tracked);
  set_pending(pending_ + 1);
  if (!loop().is_polling()) arm_or_ring(into);
}

/// Events are only seen by querying the driver, so the loop polls in every round meanwhile.
void device_watch::state::set_pending(std::size_t count) noexcept {
  if (!by_flags_ && (count > 0) != (pending_ > 0)) loop().expect_completion(count > 0);
  pending_ = count;
}

void device_watch::state::recycle_event(device_wait& wait) {
  if (wait.reached != nullptr) spare_events_.push_back(wait.reached);
}

void device_watch::state::take_all(outcome& into) noexcept {
  for (queue& each : queues_) {
    while (device_wait* const wait = each.waits.pop_front()) {
      recycle_event(*wait);
      into.waits.push_back(*wait);
    }
    each.is_armed = false;
  }
  set_pending(0);
}

void device_watch::state::collect(queue& from, outcome& into) {
  while (!from.waits.empty() && is_complete(from, *from.waits.front())) {
    device_wait& wait = *from.waits.pop_front();
    from.is_armed = false;
    recycle_event(wait);
    into.waits.push_back(wait);
    set_pending(pending_ - 1);
  }
}

/// A device failure is permanent: pending work never completes and touches no memory any more, so
/// all waits end with the error.
device_watch::state::outcome device_watch::state::collect() {
  outcome found;
  try {
    for (queue& each : queues_) collect(each, found);
    if (found.waits.empty()) check_for_failure();
  } catch (const error& failed) {
    found.failure = std::make_shared<const error>(failed);
    take_all(found);
  }
  return found;
}

void device_watch::state::complete_all(const outcome& what) {
  const std::shared_ptr<state> self = shared_from_this();  // a completion may destroy the watch
  if (pending_ == 0) {
    work_ = {};
    if (is_recheck_armed_) recheck_timer_->cancel();
  }
  detail::device_waits::complete_all(what.waits, what.failure);
}

bool device_watch::state::poll() {
  if (pending_ == 0) return false;
  const outcome found = collect();
  if (found.waits.empty()) return false;
  complete_all(found);
  return true;
}

void device_watch::state::arm(queue& which) {
  if (which.waits.empty()) return;
  if (!which.is_armed) {
    if (which.doorbell_stream.get() == nullptr) which.doorbell_stream = device_stream(of_);
    if (which.flag) {
      which.flag->await(of_, which.doorbell_stream.get(), which.waits.front()->value);
    } else {
      of_.await(which.doorbell_stream.get(), which.waits.front()->reached);
    }
    of_.call(which.doorbell_stream.get(), doorbell::ring_by_id, doorbell_.id());
    which.is_armed = true;
  }
  wait_for_doorbell();
}

/// Where the callback cannot be queued, the doorbell is rung at once: the loop polls instead.
void device_watch::state::arm_or_ring(queue& which) {
  try {
    arm(which);
  } catch (const error&) {
    doorbell_.ring();
    wait_for_doorbell();
  }
}

void device_watch::state::arm() {
  for (queue& each : queues_) arm_or_ring(each);
}

void device_watch::state::wait_for_doorbell() {
  arm_recheck();
  if (is_waiting_for_doorbell_) return;
  is_waiting_for_doorbell_ = true;
  doorbell_reader_->async_wait(
      asio::posix::stream_descriptor::wait_read, [weak = weak_from_this()](error_code failure) {
        const std::shared_ptr<state> self = weak.lock();
        if (!self || failure) return;
        std::uint64_t ring_count = 0;
        [[maybe_unused]] const ssize_t count =
            ::read(self->doorbell_.descriptor(), &ring_count, sizeof(ring_count));
        self->is_waiting_for_doorbell_ = false;
        self->poll();
        if (!self->loop().is_polling()) self->arm();
      });
}

void device_watch::state::arm_recheck() {
  if (is_recheck_armed_) return;
  is_recheck_armed_ = true;
  recheck_timer_->expires_after(recheck_interval);
  recheck_timer_->async_wait([weak = weak_from_this()](error_code) {
    const std::shared_ptr<state> self = weak.lock();
    if (!self) return;
    self->is_recheck_armed_ = false;
    self->empty_polls_ = polls_per_failure_check - 1;
    self->poll();
    if (self->pending_ > 0 && self->is_waiting_for_doorbell_) self->arm_recheck();
  });
}

device_watch::device_watch(asio::any_io_executor executor, accelerator& of, stream_signal by)
    : state_(std::make_shared<state>(
          std::move(executor), of,
          by == stream_signal::words && of.facts().has_stream_memory_ops)) {}

device_watch::~device_watch() {
  state_->end();
}

asio::any_io_executor device_watch::get_executor() const noexcept {
  return state_->get_executor();
}
accelerator& device_watch::of() const noexcept {
  return state_->of();
}
std::size_t device_watch::pending() const noexcept {
  return state_->pending();
}

void device_watch::after(accelerator::stream stream, device_wait& wait) {
  state_->after(stream, wait);
}

}  // namespace tandem
