#include "devices/peer_copies.hpp"

#include <algorithm>
#include <utility>

namespace tandem::devices {
namespace {

// A batch is over when its last copy is: bounded, so that nobody waits long for others.
constexpr std::size_t most_batch_bytes = std::size_t{16} << 20;
constexpr std::size_t most_batch_copies = 32;
constexpr std::size_t long_copy_bytes = std::size_t{16} << 20;

}  // namespace

void peer_copies::told::add(device_wait& wait) noexcept {
  wait.next = nullptr;
  (first == nullptr ? first : last->next) = &wait;
  last = &wait;
}

peer_copies::peer_copies(const asio::any_io_executor& executor, accelerator& by)
    : watch_(executor, by) {
  for (batch& each : batches_) {
    each.of = this;
    each.over.owner = &each;
    each.over.done = is_over;
    each.over.destroy = is_gone;
  }
}

void peer_copies::copy(void* to, const void* from, std::size_t bytes, device_wait& wait) {
  accelerator& device = watch_.of();
  if (bytes >= long_copy_bytes) {
    if (long_.get() == nullptr) long_ = device_stream(device);
    device.copy(to, from, bytes, long_.get());
    try {
      watch_.after(long_.get(), wait);
    } catch (const error&) {
      finish();
      throw;
    }
    return;
  }
  const auto idle = std::find_if(batches_.begin(), batches_.end(),
                                 [](const batch& each) { return each.who.first == nullptr; });
  if (idle == batches_.end()) {
    waiting_.push_back({{to, from, bytes}, &wait});
    return;
  }
  told failed;
  next_.assign(1, {{to, from, bytes}, &wait});
  begin(*idle, failed);
  if (failed.failure) throw error(*failed.failure);
}

/// `next_`, of which those fail that cannot be.
void peer_copies::begin(batch& as, told& failed) {
  const told before = failed;
  try {
    if (as.on.get() == nullptr) as.on = device_stream(watch_.of());
    queue(as, failed);
    if (as.who.first != nullptr) watch_.after(as.on.get(), as.over);
  } catch (const error& why) {
    finish();
    as.who = {};
    failed = before;
    for (const request& each : next_) failed.add(*each.wait);
    failed.failure = std::make_shared<const error>(why);
  }
}

/// All at once; where the driver refuses, each by itself.
void peer_copies::queue(batch& as, told& failed) {
  accelerator& device = watch_.of();
  if (next_.size() > 1) {
    pieces_.clear();
    for (const request& each : next_) pieces_.push_back(each.what);
    try {
      device.copy_all(pieces_, as.on.get());
      for (const request& each : next_) as.who.add(*each.wait);
      return;
    } catch (const error&) {
    }
  }
  for (const request& each : next_) {
    try {
      device.copy(each.what.to, each.what.from, each.what.bytes, as.on.get());
      as.who.add(*each.wait);
    } catch (const error& why) {
      failed.add(*each.wait);
      failed.failure = std::make_shared<const error>(why);
    }
  }
}

/// Begins with what waits; who of them fails.
peer_copies::told peer_copies::go_on() {
  told failed;
  for (batch& each : batches_) {
    while (each.who.first == nullptr && !waiting_.empty()) {
      next_.clear();
      std::size_t bytes = 0;
      do {
        bytes += waiting_.front().what.bytes;
        next_.push_back(waiting_.front());
        waiting_.pop_front();
      } while (!waiting_.empty() && next_.size() < most_batch_copies &&
               bytes + waiting_.front().what.bytes <= most_batch_bytes);
      begin(each, failed);
    }
  }
  return failed;
}

/// The engine goes on before anybody hears of it. Who is told may let go of this.
void peer_copies::is_over(device_wait& of, const std::shared_ptr<const error>& failure) {
  auto& done = *static_cast<batch*>(of.owner);
  told who = std::exchange(done.who, {});
  who.failure = failure;
  const told failed = done.of->go_on();
  tell(who);
  tell(failed);
}

/// With the executor, and whoever waits for a turn with it.
void peer_copies::is_gone(device_wait& of) noexcept {
  auto& which = *static_cast<batch*>(of.owner);
  told who = std::exchange(which.who, {});
  for (const request& each : which.of->waiting_) who.add(*each.wait);
  which.of->waiting_.clear();
  while (device_wait* const wait = who.first) {
    who.first = wait->next;
    if (wait->destroy != nullptr) wait->destroy(*wait);
  }
}

void peer_copies::tell(const told& who) {
  for (device_wait* wait = who.first; wait != nullptr;) {
    device_wait* const after_it = wait->next;
    wait->done(*wait, who.failure);
    wait = after_it;
  }
}

void peer_copies::finish() noexcept {
  const auto finish_one = [this](const device_stream& each) {
    try {
      if (each.get() != nullptr) watch_.of().finish(each.get());
    } catch (const error&) {
    }
  };
  finish_one(long_);
  for (const batch& each : batches_) finish_one(each.on);
}

}  // namespace tandem::devices
