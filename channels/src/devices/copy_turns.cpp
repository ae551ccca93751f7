#include "devices/copy_turns.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

namespace tandem::devices {
namespace {

constexpr std::size_t most_copies_of_a_call = 32;

}  // namespace

copy_turns::copy_turns(device_watch& watch, const asio::any_io_executor& executor,
                       const limits& of_calls, clock now)
    : pending_owner(executor),
      pollable(executor, look::reads_memory),
      watch_(watch),
      limits_(of_calls),
      now_(now) {
  for (batch& each : batches_) {
    each.of = this;
    each.over.owner = &each;
    each.over.done = is_over;
    each.over.destroy = is_gone;
  }
}

copy_turns::batch* copy_turns::idle() noexcept {
  const auto end = batches_.begin() + static_cast<std::ptrdiff_t>(limits_.calls);
  const auto found =
      std::find_if(batches_.begin(), end, [](const batch& each) { return each.bytes == 0; });
  return found == end ? nullptr : &*found;
}

void copy_turns::expect_reader(bool one_more) noexcept {
  readers_ += one_more ? 1 : -1;
  meet_reader();
}

bool copy_turns::has_company() const noexcept {
  if (readers_ > 0 || (other_ != nullptr && other_->pending_bytes() > 0)) return true;
  const time_point now = now_();
  return now - last_reader_ < limits_.reader_lasts ||
         (other_ != nullptr && now - other_->last_asked_ < limits_.other_lasts);
}

void copy_turns::copy(void* to, const void* from, std::size_t bytes, device_wait& wait) {
  last_asked_ = now_();
  const request added{{to, from, bytes}, &wait};
  const bool is_cut = bytes > limits_.company_bytes && has_company();
  if (pending_bytes() == 0 && !is_cut) {
    told failed;
    next_.assign(1, added);
    begin(batches_[0], failed);
    if (failed.failure) throw error(*failed.failure);
    return;
  }
  waiting_.push_back(added);
  waiting_bytes_ += bytes;
  if (fills_a_call() || is_cut) refused_ = go_on(!is_cut);
  go_on_soon();
}

/// Waits for the next poll, as more requests may follow: messages are read from peers one by one.
void copy_turns::go_on_soon() {
  if (refused_.waits.empty() && (waiting_.empty() || idle() == nullptr)) return;
  waits_for_look_ = true;
  if (!loop().is_polling()) post();
}

void copy_turns::post() {
  if (std::exchange(is_posted_, true)) return;
  asio::post(watch_.get_executor(), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->is_posted_ = false;
    self->poll();
  });
}

/// Runs before posted work, which waits until the links are idle.
bool copy_turns::poll() {
  if (!std::exchange(waits_for_look_, false)) return false;
  const auto self = shared_from_this();
  const told failed = go_on();
  detail::device_waits::tell(failed.waits, failed.failure);
  return true;
}

void copy_turns::arm() {
  if (waits_for_look_) post();
}

/// Moves queued requests into `next_`. @pre the queue is not empty
void copy_turns::take(bool in_company) {
  const std::size_t max_bytes = in_company ? limits_.company_bytes : limits_.call_bytes;
  std::size_t bytes = 0;
  next_.clear();
  do {
    request& first = waiting_.front();
    accelerator::piece& what = first.what;
    if (in_company && what.bytes > max_bytes && next_.empty()) {
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
  } while (!waiting_.empty() && next_.size() < most_copies_of_a_call &&
           bytes + waiting_.front().what.bytes <= max_bytes);
}

/// Submits `next_`; requests that the driver refuses are added to `failed`.
void copy_turns::begin(batch& as, told& failed) {
  const told before = failed;
  try {
    if (stream_.get() == nullptr) stream_ = device_stream(watch_.of());
    if (!queue(as, failed)) return;
    watch_.after(stream_.get(), as.over);
    for (const request& each : next_) as.bytes += each.what.bytes;
    working_bytes_ += as.bytes;
  } catch (const error& why) {
    finish();
    as.who = {};
    failed = before;
    for (const request& each : next_) refuse(each, why, failed);
  }
}

/// Fails the whole copy, after waiting for its earlier parts, so that nothing of it is in flight.
void copy_turns::refuse(const request& which, const error& why, told& failed) {
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
void copy_turns::join_neighbours() {
  accelerator& device = watch_.of();
  const auto is_one = [&device](const void* first, std::size_t bytes, const void* second) {
    if (static_cast<const std::byte*>(first) + bytes != second) return false;
    const std::uint64_t id = device.allocation_id(first);
    return id != 0 && id == device.allocation_id(second);
  };
  pieces_.clear();
  for (const request& each : next_) {
    const accelerator::piece& what = each.what;
    if (!pieces_.empty()) {
      accelerator::piece& last = pieces_.back();
      if (is_one(last.to, last.bytes, what.to) && is_one(last.from, last.bytes, what.from)) {
        last.bytes += what.bytes;
        continue;
      }
    }
    pieces_.push_back(what);
  }
}

/// Submits all as one call; if the driver refuses, one by one. False: nothing was submitted.
bool copy_turns::queue(batch& as, told& failed) {
  accelerator& device = watch_.of();
  const auto goes = [&as](const request& which) {
    if (which.wait != nullptr) as.who.push_back(*which.wait);
  };
  if (next_.size() > 1) {
    join_neighbours();
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

/// Submits queued requests. Returns those that failed, now or before. @param with_full_calls  only
/// calls that are full
copy_turns::told copy_turns::go_on(bool with_full_calls) {
  told failed = std::exchange(refused_, {});
  while (!waiting_.empty() && (!with_full_calls || fills_a_call())) {
    const bool in_company = has_company();
    batch* const next = in_company && working_bytes_ > 0 ? nullptr : idle();
    if (next == nullptr) break;
    take(in_company);
    begin(*next, failed);
  }
  return failed;
}

/// Submits the next call before completing this one. A handler may destroy this object.
void copy_turns::is_over(device_wait& of, const std::shared_ptr<const error>& failure) {
  auto& done = *static_cast<batch*>(of.owner);
  const detail::device_waits who = std::exchange(done.who, {});
  done.of->working_bytes_ -= std::exchange(done.bytes, 0);
  const told failed = done.of->go_on();
  detail::device_waits::tell(who, failure);
  detail::device_waits::tell(failed.waits, failed.failure);
}

/// The executor is destroyed, and with it all queued requests. A handler may destroy this object.
void copy_turns::is_gone(device_wait& of) noexcept {
  auto& which = *static_cast<batch*>(of.owner);
  detail::device_waits who = std::exchange(which.who, {});
  which.of->working_bytes_ -= std::exchange(which.bytes, 0);
  which.of->give_up(who);
  detail::device_waits::destroy(who);
}

void copy_turns::abandon() noexcept {
  detail::device_waits who;
  give_up(who);
  detail::device_waits::destroy(who);
}

/// Moves out the requests that have nothing in flight.
void copy_turns::give_up(detail::device_waits& into) noexcept {
  for (const request& each : waiting_) into.push_back(*each.wait);
  waiting_.clear();
  waiting_bytes_ = 0;
  while (device_wait* const each = refused_.waits.pop_front()) into.push_back(*each);
}

void copy_turns::finish() noexcept {
  try {
    if (stream_.get() != nullptr) watch_.of().finish(stream_.get());
  } catch (const error&) {
  }
}

}  // namespace tandem::devices
