#include "doubles/cuda/world.hpp"

namespace tandem::test::cuda {

using namespace std::chrono_literals;

namespace {

/// All that was queued before in its hardware queue has begun.
bool is_first_in_queue(const std::vector<std::shared_ptr<stream>>& all, const stream& of,
                       const work& what) {
  if (!of.queue) return true;
  for (const auto& each : all) {
    if (each.get() == &of || each->device != of.device || each->queue != of.queue) continue;
    for (const work& before : each->waiting) {
      if (before.ticket > what.ticket) break;
      const bool is_first = &before == &each->waiting.front();
      if (!is_first || !(each->running || before.has_begun)) return false;
    }
  }
  return true;
}

}  // namespace

bool& inside_work() noexcept {
  thread_local bool is_inside = false;
  return is_inside;
}

cu::result world::queue(stream& on, work what) {
  device& at = devices[static_cast<std::size_t>(on.device)];
  if (at.broken != cu::success) return at.broken;
  if (on.capturing) return cu::success;
  what.ticket = ++next_ticket_;
  if (options.max_delay.count() > 0) {
    const auto most = static_cast<std::uint64_t>(options.max_delay.count());
    what.not_before = clock::now() + std::chrono::microseconds(chance_() % (most + 1));
  }
  on.waiting.push_back(std::move(what));
  if (!worker_.joinable()) worker_ = std::thread([this] { serve(); });
  changed.notify_all();
  return cu::success;
}

/// The default stream waits for earlier work of the blocking streams, and they for its own.
bool world::may_start(const stream& of, const work& what) const {
  if (!of.blocking) return true;
  for (const auto& each : streams) {
    if (each.get() == &of || each->device != of.device || !each->blocking) continue;
    if (of.handle != nullptr && each->handle != nullptr) continue;
    if (!each->waiting.empty() && each->waiting.front().ticket < what.ticket) return false;
  }
  return true;
}

bool world::has_engine(const stream& of, const work& what) const {
  if (!options.greedy_engines || what.source_device < 0) return true;
  const std::shared_ptr<stream> served =
      devices[static_cast<std::size_t>(what.source_device)].served.lock();
  return !served || served.get() == &of || served->waiting.empty();
}

bool world::is_ready(stream& of) {
  if (of.running || of.waiting.empty()) return false;
  work& first = of.waiting.front();
  if (!may_start(of, first) || !has_engine(of, first) || !is_first_in_queue(streams, of, first))
    return false;
  if (!manual && first.not_before && *first.not_before > last_step_) return false;
  first.has_begun = first.is_kernel;
  return !first.is_ready || first.is_ready();
}

bool world::step(lock& held, std::optional<cu::stream> only) {
  last_step_ = clock::now();
  std::vector<std::shared_ptr<stream>> ready;
  for (const auto& each : streams) {
    if ((!only || each->handle == *only) && is_ready(*each)) ready.push_back(each);
  }
  if (ready.empty()) return false;
  const std::shared_ptr<stream> chosen = ready[chance_() % ready.size()];
  device& at = devices[static_cast<std::size_t>(chosen->device)];
  if (at.breaks_after && (*at.breaks_after)-- == 0) {
    break_now(at, at.breaks_with);
    return true;
  }
  chosen->running = true;
  const int source_device = chosen->waiting.front().source_device;
  if (source_device >= 0) devices[static_cast<std::size_t>(source_device)].served = chosen;
  const work doing = std::move(chosen->waiting.front());  // its ticket remains
  cu::result failed = cu::success;
  if (doing.without_lock) {
    ++running_unlocked_;
    held.unlock();
    const bool was_inside = std::exchange(inside_work(), true);
    std::string why;
    try {
      doing.run();
    } catch (const std::exception& e) {
      why = e.what();
    }
    inside_work() = was_inside;
    held.lock();
    if (!why.empty()) failed = misuse(illegal_address, std::string(doing.what) + ": " + why);
    if (--running_unlocked_ == 0) unmapped_later_.clear();
  } else {
    doing.run();
  }
  chosen->running = false;
  // Breaking a device removes the work of its streams.
  if (!chosen->waiting.empty() && chosen->waiting.front().ticket == doing.ticket) {
    chosen->waiting.pop_front();
  }
  if (doing.signals) doing.signals->done = true;
  if (failed != cu::success) break_now(at, failed);
  forget_idle();
  changed.notify_all();
  return true;
}

void world::break_now(device& which, cu::result with) {
  which.broken = with;
  which.breaks_after.reset();
  for (const auto& each : streams) {
    if (each->device != which.ordinal) continue;
    for (const work& dropped : each->waiting) {
      if (dropped.signals) dropped.signals->done = true;
    }
    each->waiting.clear();
  }
  forget_idle();
  changed.notify_all();
}

void world::forget_idle() {
  std::erase_if(streams, [](const auto& each) {
    return each->destroyed && each->waiting.empty() && !each->running;
  });
}

cu::result world::synchronize(lock& held, const std::shared_ptr<stream>& which) {
  if (which->capturing) return capture_unsupported;
  device& at = devices[static_cast<std::size_t>(which->device)];
  const auto mark = std::make_shared<record>();
  const cu::result marked = queue(*which, {.what = "mark", .run = [] {}, .signals = mark});
  while (marked == cu::success && !mark->done) {
    if (manual && step(held)) continue;
    changed.wait_for(held, 200us);
  }
  return at.broken;
}

/// The next time at which delayed or polled work may become ready; none: it will be signalled.
std::optional<clock::time_point> world::next_poll() const {
  std::optional<clock::time_point> earliest;
  for (const auto& each : streams) {
    if (each->running || each->waiting.empty()) continue;
    const work& first = each->waiting.front();
    if (!may_start(*each, first) || !is_first_in_queue(streams, *each, first)) continue;
    const bool is_late = first.not_before && *first.not_before > last_step_;
    if (!is_late && !first.polls) continue;
    const clock::time_point when = is_late ? *first.not_before : last_step_ + 50us;
    if (!earliest || when < *earliest) earliest = when;
  }
  return earliest;
}

void world::serve() {
  lock held(mutex);
  while (!over_) {
    if (!manual && step(held)) continue;
    const std::optional<clock::time_point> next = manual ? std::nullopt : next_poll();
    if (next) {
      changed.wait_until(held, *next);
    } else {
      changed.wait(held);
    }
  }
}

}  // namespace tandem::test::cuda
