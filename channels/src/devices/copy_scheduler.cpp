#include "devices/copy_scheduler.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

namespace tandem::devices {
namespace {

constexpr std::size_t max_copies_per_call = 32;

}  // namespace

copy_scheduler::copy_scheduler(device_watch& watch, const asio::any_io_executor& executor,
                               const limits& of_calls, clock now)
    : pending_owner(executor),
      pollable(executor, poll_cost::memory_read),
      watch_(watch),
      limits_(of_calls),
      now_(now) {
  for (batch& each : batches_) {
    each.of = this;
    each.completion.owner = &each;
    each.completion.done = on_complete;
    each.completion.destroy = on_destroyed;
  }
}

copy_scheduler::batch* copy_scheduler::idle_batch() noexcept {
  const auto end = batches_.begin() + static_cast<std::ptrdiff_t>(limits_.calls);
  const auto found =
      std::find_if(batches_.begin(), end, [](const batch& each) { return each.bytes == 0; });
  return found == end ? nullptr : &*found;
}

void copy_scheduler::expect_reader(bool one_more) noexcept {
  readers_ += one_more ? 1 : -1;
  note_reader();
}

bool copy_scheduler::is_contended() const noexcept {
  if (readers_ > 0 || (sibling_ != nullptr && sibling_->pending_bytes() > 0)) return true;
  const time_point now = now_();
  return now - last_reader_ < limits_.reader_window ||
         (sibling_ != nullptr && now - sibling_->last_requested_ < limits_.other_window);
}

void copy_scheduler::copy(void* to, const void* from, std::size_t bytes, device_wait& wait) {
  last_requested_ = now_();
  const request added{{to, from, bytes}, &wait};
  const bool is_cut = bytes > limits_.contended_bytes && is_contended();
  if (pending_bytes() == 0 && !is_cut) {
    failed_waits failed;
    next_.assign(1, added);
    begin(batches_[0], failed);
    if (failed.failure) throw error(*failed.failure);
    return;
  }
  waiting_.push_back(added);
  waiting_bytes_ += bytes;
  if (fills_call() || is_cut) refused_ = start_next(!is_cut);
  start_next_soon();
}

/// Waits for the next poll, as more requests may follow: messages are read from peers one by one.
void copy_scheduler::start_next_soon() {
  if (refused_.waits.empty() && (waiting_.empty() || idle_batch() == nullptr)) return;
  poll_pending_ = true;
  if (!loop().is_polling()) post();
}

void copy_scheduler::post() {
  if (std::exchange(is_posted_, true)) return;
  asio::post(watch_.get_executor(), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->is_posted_ = false;
    self->poll();
  });
}

/// Runs before posted work, which waits until the links are idle.
bool copy_scheduler::poll() {
  if (!std::exchange(poll_pending_, false)) return false;
  const auto self = shared_from_this();
  const failed_waits failed = start_next();
  detail::device_waits::complete_all(failed.waits, failed.failure);
  return true;
}

void copy_scheduler::arm() {
  if (poll_pending_) post();
}

/// Moves queued requests into `next_`. @pre the queue is not empty
void copy_scheduler::take(bool contended) {
  const std::size_t max_bytes = contended ? limits_.contended_bytes : limits_.call_bytes;
  std::size_t bytes = 0;
  next_.clear();
  do {
    request& first = waiting_.front();
    accelerator::piece& what = first.what;
    if (contended && what.bytes > max_bytes && next_.empty()) {
      first.is_part = true;
      next_.push_back({{what.to, what.from, max_bytes}, nullptr, true});
      what = {static_cast<std::byte*>(what.to) + max_bytes,
              static_cast<const std::byte*>(what.from) + max_bytes, what.bytes - max_bytes};
      waiting_bytes_ -= max_bytes;
      return;
    }
    bytes += what.bytes;
    waiting_bytes_ -= what.bytes;
    next_.push_back(first);
    waiting_.pop_front();
  } while (!waiting_.empty() && next_.size() < max_copies_per_call &&
           bytes + waiting_.front().what.bytes <= max_bytes);
}

/// Submits `next_`; requests that the driver refuses are added to `failed`.
void copy_scheduler::begin(batch& as, failed_waits& failed) {
  const failed_waits before = failed;
  try {
    if (stream_.get() == nullptr) stream_ = device_stream(watch_.of());
    if (!queue(as, failed)) return;
    watch_.after(stream_.get(), as.completion);
    for (const request& each : next_) as.bytes += each.what.bytes;
    in_flight_bytes_ += as.bytes;
  } catch (const error& why) {
    finish();
    as.waits = {};
    failed = before;
    for (const request& each : next_) refuse(each, why, failed);
  }
}

/// Fails the whole copy, after waiting for its earlier parts, so that nothing of it is in flight.
void copy_scheduler::refuse(const request& which, const error& why, failed_waits& failed) {
  if (which.is_part) finish();
  device_wait* wait = which.wait;
  if (wait == nullptr) {
    const request& rest = waiting_.front();
    wait = rest.wait;
    waiting_bytes_ -= rest.what.bytes;
    waiting_.pop_front();
  }
  failed.waits.push_back(*wait);
  failed.failure = std::make_shared<const error>(why);
}

/// Merges adjacent requests of `next_` into `pieces_`, but not across allocations, which may be
/// adjacent, too.
void copy_scheduler::merge_adjacent() {
  accelerator& device = watch_.of();
  const auto is_adjacent = [&device](const void* first, std::size_t bytes, const void* second) {
    if (static_cast<const std::byte*>(first) + bytes != second) return false;
    const std::uint64_t id = device.allocation_id(first);
    return id != 0 && id == device.allocation_id(second);
  };
  pieces_.clear();
  for (const request& each : next_) {
    const accelerator::piece& what = each.what;
    if (!pieces_.empty()) {
      accelerator::piece& last = pieces_.back();
      if (is_adjacent(last.to, last.bytes, what.to) &&
          is_adjacent(last.from, last.bytes, what.from)) {
        last.bytes += what.bytes;
        continue;
      }
    }
    pieces_.push_back(what);
  }
}

/// Submits all as one call; if the driver refuses, one by one. False: nothing was submitted.
bool copy_scheduler::queue(batch& as, failed_waits& failed) {
  accelerator& device = watch_.of();
  const auto goes = [&as](const request& which) {
    if (which.wait != nullptr) as.waits.push_back(*which.wait);
  };
  if (next_.size() > 1) {
    merge_adjacent();
    try {
      device.copy_all(pieces_, stream_.get());
      for (const request& each : next_) goes(each);
      return true;
    } catch (const error&) {
    }
  }
  bool is_any = false;
  for (const request& each : next_) {
    try {
      device.copy(each.what.to, each.what.from, each.what.bytes, stream_.get());
      goes(each);
      is_any = true;
    } catch (const error& why) {
      refuse(each, why, failed);
    }
  }
  return is_any;
}

/// Submits queued requests. Returns those that failed, now or before. @param only_full_calls  only
/// calls that are full
copy_scheduler::failed_waits copy_scheduler::start_next(bool only_full_calls) {
  failed_waits failed = std::exchange(refused_, {});
  while (!waiting_.empty() && (!only_full_calls || fills_call())) {
    const bool contended = is_contended();
    batch* const next = contended && in_flight_bytes_ > 0 ? nullptr : idle_batch();
    if (next == nullptr) break;
    take(contended);
    begin(*next, failed);
  }
  return failed;
}

/// Submits the next call before completing this one. A handler may destroy this object.
void copy_scheduler::on_complete(device_wait& of, const std::shared_ptr<const error>& failure) {
  auto& done = *static_cast<batch*>(of.owner);
  const detail::device_waits waits = std::exchange(done.waits, {});
  done.of->in_flight_bytes_ -= std::exchange(done.bytes, 0);
  const failed_waits failed = done.of->start_next();
  detail::device_waits::complete_all(waits, failure);
  detail::device_waits::complete_all(failed.waits, failed.failure);
}

/// The executor is destroyed, and with it all queued requests. A handler may destroy this object.
void copy_scheduler::on_destroyed(device_wait& of) noexcept {
  auto& which = *static_cast<batch*>(of.owner);
  detail::device_waits waits = std::exchange(which.waits, {});
  which.of->in_flight_bytes_ -= std::exchange(which.bytes, 0);
  which.of->abandon_queued(waits);
  detail::device_waits::destroy(waits);
}

void copy_scheduler::abandon() noexcept {
  detail::device_waits waits;
  abandon_queued(waits);
  detail::device_waits::destroy(waits);
}

/// Moves out the requests that have nothing in flight.
void copy_scheduler::abandon_queued(detail::device_waits& into) noexcept {
  for (const request& each : waiting_) into.push_back(*each.wait);
  waiting_.clear();
  waiting_bytes_ = 0;
  while (device_wait* const each = refused_.waits.pop_front()) into.push_back(*each);
}

void copy_scheduler::finish() noexcept {
  try {
    if (stream_.get() != nullptr) watch_.of().finish(stream_.get());
  } catch (const error&) {
  }
}

}  // namespace tandem::devices
