#include "queued_operations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <tandem/detail/deferred_calls.hpp>
#include <utility>
#include <vector>

#include "group_of_ranks.hpp"
#include "job_state.hpp"

namespace tandem::c {
namespace {

/// How often completed operations are let go of, and time limits looked at.
constexpr std::chrono::milliseconds look_interval{100};
/// While memory is to be closed when none is in progress.
constexpr std::chrono::milliseconds short_interval{5};
/// By each call, so that what a stream of calls uses stays in the processor's caches.
constexpr int let_go_at_once = 3;
/// After one that has found none, which costs up to a microsecond.
constexpr int calls_between_looks = 16;

}  // namespace

queued_operations::queued_operations(group_of_ranks& group,
                                     std::function<std::optional<error>()> find_failure)
    : group_(group), find_failure_(std::move(find_failure)), timer_(group.loop().executor()) {}

void queued_operations::add(std::shared_ptr<operation_state> op, const char* name,
                            const library_queue* by) {
  seen_ones oldest;
  bool are_others = false;
  {
    const std::lock_guard lock(mutex_);
    copy_some(by_kernels_, 0, let_go_at_once, oldest);
    are_others = !others_.empty();
  }
  for (seen& each : oldest) {
    each.is_over = each.op->finish_if_carried();
    if (!each.is_over) break;
  }
  if (are_others && by == nullptr) let_go_of_others();
  const bool is_by_kernels = op->ends_by_kernels();
  const auto limit = op->timeout.value_or(group_.job()->operation_timeout());
  const std::lock_guard lock(mutex_);
  drop(by_kernels_, oldest);
  (is_by_kernels ? by_kernels_ : others_)
      .push_back({std::move(op), name, by, std::chrono::steady_clock::now() + limit});
  if (std::exchange(is_looking_, true)) return;
  group_.loop().submit([self = shared_from_this()] { self->look_again(); });
}

/// The oldest, if they are over and still there.
void queued_operations::drop(entries& from, const seen_ones& those) {
  for (const seen& each : those) {
    if (each.is_over && !from.empty() && from.front().op == each.op) from.pop_front();
  }
}

/// Of those of copy engines, with a call of the driver.
void queued_operations::let_go_of_others() {
  seen_ones all;
  {
    const std::lock_guard lock(mutex_);
    if (calls_until_look_ > 0) {
      --calls_until_look_;
      return;
    }
    copy_some(others_, 0, let_go_at_once, all);
  }
  look_at(all);
  const auto is_over = [](const seen& each) { return each.is_over && !each.failure; };
  all.erase(std::ranges::find_if_not(all, is_over), all.end());
  for (const seen& each : all) each.op->finish(nullptr);
  const std::lock_guard lock(mutex_);
  drop(others_, all);
  if (all.empty()) calls_until_look_ = calls_between_looks;
}

void queued_operations::look_again() {
  const bool is_urgent = tandem::detail::deferred_calls::of_process().has_pending();
  timer_.expires_after(is_urgent ? short_interval : look_interval);
  timer_.async_wait([weak = weak_from_this()](error_code cancelled) {
    const auto self = weak.lock();
    if (self && !cancelled) self->look();
  });
}

void queued_operations::look() {
  if (std::optional<error> failure = find_failure_()) return group_.job()->fail(*failure);
  std::optional<error> why;
  for (entries* const each : {&by_kernels_, &others_}) {
    std::size_t left = 0;
    while (look_at_some(*each, left, why)) {
    }
  }
  if (why) return group_.job()->fail(*why);
  const std::lock_guard lock(mutex_);
  is_looking_ = !by_kernels_.empty() || !others_.empty();
  if (is_looking_) look_again();
}

void queued_operations::copy_some(const entries& of, std::size_t first, std::size_t most,
                                  seen_ones& into) {
  for (std::size_t i = first; i < of.size() && into.size() < most; ++i) {
    into.push_back({.op = of[i].op});
  }
}

/// Without the lock, as the driver may keep its caller waiting. The last one first: where its
/// stream has come to its end, it has come to those before.
/// @returns whether it could ask the driver
bool queued_operations::look_at(seen_ones& all) const {
  const progress::driver_turn mine(group_.loop());
  const bool may_call = mine.may_call();
  device_side::passed_points passed;
  for (auto each = all.rbegin(); each != all.rend(); ++each) {
    try {
      each->is_over = may_call ? each->op->is_reached(passed) : each->op->is_done();
    } catch (...) {
      each->is_over = true;
      each->failure = std::current_exception();
    }
  }
  return may_call;
}

/// @param left  of those that were looked at, what is not complete
bool queued_operations::look_at_some(entries& in, std::size_t& left, std::optional<error>& why) {
  seen_ones all;
  {
    const std::lock_guard lock(mutex_);
    copy_some(in, left, looked_at_once, all);
  }
  const bool could_call = look_at(all);
  for (const seen& each : all) {
    if (each.is_over) each.op->finish(each.failure);
  }
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  left = std::min(left, in.size());
  const auto first = in.begin() + static_cast<std::ptrdiff_t>(left);
  const std::size_t count = std::min(in.size() - left, all.size());
  const auto last = first + static_cast<std::ptrdiff_t>(count);
  const auto end =
      std::remove_if(first, last, [](const entry& each) { return each.op->is_done(); });
  // While streams wait, others may be complete without being known to be.
  const auto first_late = std::find_if(first, end, [&all, now, could_call](const entry& each) {
    return each.deadline <= now && (could_call || each.op->waits_for_relay()) &&
           std::ranges::find(all, each.op, &seen::op) != all.end();
  });
  if (first_late != end && !why) why = late(*first_late);
  left += static_cast<std::size_t>(end - first);
  const bool are_all = last == in.end();
  in.erase(end, last);
  return !are_all;
}

error queued_operations::late(const entry& which) const {
  const std::string missing = which.by == nullptr ? std::string() : which.by->missing_text();
  return error(
      errc::timed_out,
      {.rank = group_.job()->rank(),
       .rail = {},
       .phase = {},
       .detail = fmt::format("{} among {}, in the order of streams: not complete "
                             "within its time limit{}{}",
                             which.name, group_.ranks_text(), missing.empty() ? "" : ": ", missing),
       .advice = "look for a rank that has not made the same call, or give operations "
                 "more time"});
}

/// @param takes  lets go of them
std::vector<queued_operations::entry> queued_operations::all_entries(bool takes) {
  const std::lock_guard lock(mutex_);
  std::vector<entry> all(by_kernels_.begin(), by_kernels_.end());
  all.insert(all.end(), others_.begin(), others_.end());
  if (takes) {
    by_kernels_.clear();
    others_.clear();
  }
  return all;
}

void queued_operations::finish() {
  for (const entry& each : all_entries(false)) {
    if (each.op->is_answered()) each.op->wait(each.deadline);
  }
}

void queued_operations::fail(const error& why) {
  for (const entry& each : all_entries(true)) {
    if (!each.op->finish_if_reached_by_turn()) each.op->finish(std::make_exception_ptr(why));
  }
}

}  // namespace tandem::c
