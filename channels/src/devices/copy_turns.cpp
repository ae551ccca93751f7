#include "devices/copy_turns.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

namespace tandem::devices {
namespace {

constexpr std::size_t most_copies_of_a_call = 32;

}  // namespace

copy_turns::copy_turns(device_watch& watch, const asio::any_io_executor& executor, const shape& how)
    : pollable(executor, look::reads_memory),
      watch_(watch),
      call_bytes_(how.call_bytes),
      streams_(how.streams) {
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    batch& each = batches_[i];
    each.of = this;
    each.on = &streams_[i % how.streams];
    each.over.owner = &each;
    each.over.done = is_over;
    each.over.destroy = is_gone;
  }
}

copy_turns::batch* copy_turns::idle() noexcept {
  const auto found = std::find_if(batches_.begin(), batches_.end(),
                                  [](const batch& each) { return each.who.empty(); });
  return found == batches_.end() ? nullptr : &*found;
}

bool copy_turns::is_working() const noexcept {
  return std::any_of(batches_.begin(), batches_.end(),
                     [](const batch& each) { return !each.who.empty(); });
}

void copy_turns::copy(void* to, const void* from, std::size_t bytes, device_wait& wait) {
  if (is_working()) {
    waiting_.push_back({{to, from, bytes}, &wait});
    return go_on_soon();
  }
  told failed;
  next_.assign(1, {{to, from, bytes}, &wait});
  begin(batches_[0], failed);
  if (failed.failure) throw error(*failed.failure);
}

/// More may have come already: one message after the other is taken from its peer.
void copy_turns::go_on_soon() {
  if (idle() == nullptr) return;
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

/// Sooner than posted work, which waits until the links are quiet.
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

/// `next_`, of which those fail that cannot be.
void copy_turns::begin(batch& as, told& failed) {
  const told before = failed;
  try {
    if (as.on->get() == nullptr) *as.on = device_stream(watch_.of());
    queue(as, failed);
    if (!as.who.empty()) watch_.after(as.on->get(), as.over);
  } catch (const error& why) {
    finish();
    as.who = {};
    failed = before;
    for (const request& each : next_) failed.waits.push_back(*each.wait);
    failed.failure = std::make_shared<const error>(why);
  }
}

/// All at once; where the driver refuses, each by itself.
void copy_turns::queue(batch& as, told& failed) {
  accelerator& device = watch_.of();
  if (next_.size() > 1) {
    pieces_.clear();
    for (const request& each : next_) pieces_.push_back(each.what);
    try {
      device.copy_all(pieces_, as.on->get());
      for (const request& each : next_) as.who.push_back(*each.wait);
      return;
    } catch (const error&) {
    }
  }
  for (const request& each : next_) {
    try {
      device.copy(each.what.to, each.what.from, each.what.bytes, as.on->get());
      as.who.push_back(*each.wait);
    } catch (const error& why) {
      failed.waits.push_back(*each.wait);
      failed.failure = std::make_shared<const error>(why);
    }
  }
}

/// Begins with what waits; who of them fails.
copy_turns::told copy_turns::go_on() {
  told failed;
  while (!waiting_.empty()) {
    batch* const next = idle();
    if (next == nullptr) break;
    next_.clear();
    std::size_t bytes = 0;
    do {
      bytes += waiting_.front().what.bytes;
      next_.push_back(waiting_.front());
      waiting_.pop_front();
    } while (!waiting_.empty() && next_.size() < most_copies_of_a_call &&
             bytes + waiting_.front().what.bytes <= call_bytes_);
    begin(*next, failed);
  }
  return failed;
}

/// The engine goes on before anybody hears of it. Who is told may let go of this.
void copy_turns::is_over(device_wait& of, const std::shared_ptr<const error>& failure) {
  auto& done = *static_cast<batch*>(of.owner);
  const detail::device_waits who = std::exchange(done.who, {});
  const told failed = done.of->go_on();
  detail::device_waits::tell(who, failure);
  detail::device_waits::tell(failed.waits, failed.failure);
}

/// With the executor, and whoever waits for a turn with it.
void copy_turns::is_gone(device_wait& of) noexcept {
  auto& which = *static_cast<batch*>(of.owner);
  detail::device_waits who = std::exchange(which.who, {});
  for (const request& each : which.of->waiting_) who.push_back(*each.wait);
  which.of->waiting_.clear();
  detail::device_waits::destroy(who);
}

void copy_turns::finish() noexcept {
  for (const device_stream& each : streams_) {
    try {
      if (each.get() != nullptr) watch_.of().finish(each.get());
    } catch (const error&) {
    }
  }
}

}  // namespace tandem::devices
