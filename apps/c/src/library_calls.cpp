#include "library_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/container/small_vector.hpp>
#include <chrono>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/log.hpp>
#include <tandem/stream_messages.hpp>
#include <thread>
#include <utility>

#include "group_of_ranks.hpp"
#include "job_state.hpp"
#include "message_lane.hpp"
#include "status.hpp"

namespace tandem::c {
namespace {

using std::chrono::milliseconds;

/// A thread that queues a call holds the lock, for ever if the device is full of work that waits
/// for a lost rank: then the library is aborted without it.
constexpr milliseconds lock_interval{10};
constexpr int max_lock_tries = 200;

}  // namespace

library_calls::library_calls(group_of_ranks& group, stream_order order, const stream_limits& limits)
    : group_(group),
      may_use_library_(order == stream_order::by_library),
      fail_timer_(group.loop().executor()),
      staged_(group, limits.staged_bytes),
      kernels_(group, {.direct = limits.kernel_bytes, .relayed = limits.relay_bytes}),
      queued_(
          std::make_shared<queued_operations>(group, [this] { return kernels_.find_failure(); })) {}

void library_calls::start(std::shared_ptr<operation_state> op, library_call call,
                          operation_body body, call_batch* together) {
  op->may_be_queued();
  group_.loop().count_operations(+1);
  std::unique_lock lock(mutex_);
  lane& on = lanes_[{call.peer, call.is_send}];
  if (op->kind != memory_kind::host && needs_loop(on, call)) {
    const bool will_be_staged = is_staged(on, call);
    lock.unlock();
    if (will_be_staged) {
      staged_.wait_for_room(*call.side);
    } else {
      group_.loop().let_streams_go_on(*op->use());
    }
    lock.lock();
  }
  if (on.at == lane::phase::unknown && has_lane(call) && !failed_) start_lanes(call);
  if (on.at == lane::phase::starting) {
    on.waiting.push_back([this, &on, op, call, body] { route(on, op, call, body, nullptr); });
  } else {
    route(on, std::move(op), std::move(call), std::move(body), together);
  }
}

/// While streams wait for relays, the lanes of other peers and groups are made all the same: what
/// those streams wait for may be behind a call that waits for the lanes.
bool library_calls::needs_loop(const lane& on, const library_call& what) const {
  if (is_by_library(on, what) || kernels_.takes(on.kernels, what)) return false;
  return on.at == lane::phase::ready || !has_lane(what) || !kernels_.may_be_relayed(what);
}

bool library_calls::is_by_library(const lane& on, const library_call& what) const {
  return on.queue && what.make && (!what.is_possible || what.is_possible(*on.queue));
}

bool library_calls::is_staged(const lane& on, const library_call& what) const {
  const bool is_known = on.at == lane::phase::ready || !has_lane(what);
  return is_known && !on.messages && !kernels_.take_turns() && staged_.takes(what) &&
         !is_by_library(on, what);
}

bool library_calls::is_in_stream(const library_call& what) const {
  if (!what.may_be_in_stream && !what.may_be_by_library_in_stream) return false;
  const std::lock_guard lock(mutex_);
  const auto found = lanes_.find({what.peer, what.is_send});
  if (what.may_be_by_library_in_stream && found != lanes_.end() &&
      found->second.at == lane::phase::ready && is_by_library(found->second, what)) {
    return true;
  }
  if (!what.may_be_in_stream) return false;
  if (found == lanes_.end())
    return !has_lane(what) && !kernels_.take_turns() && staged_.takes(what);
  return is_staged(found->second, what) || kernels_.takes(found->second.kernels, what);
}

void library_calls::stage_all(std::span<staged_on_group> calls) {
  const auto each_one = [calls](auto function) {
    for (staged_on_group& each : calls) {
      if (each.what.op->is_done()) continue;
      try {
        if (each.by->failed_) throw error(*each.by->failed_);
        function(each.by->staged_, each.what);
      } catch (...) {
        if (each.what.block) each.what.block->release();
        each.what.op->finish(std::current_exception());
      }
    }
  };
  each_one([](staged_calls& by, staged_call& what) { by.hand_over(what); });
  each_one([](staged_calls& by, staged_call& what) { by.start(what); });
}

void library_calls::launch_all(std::span<kernel_on_group> calls) {
  std::vector<kernel_calls::started*> all;
  all.reserve(calls.size());
  for (auto& [by, what] : calls) {
    if (by->failed_) what.op->finish(std::make_exception_ptr(*by->failed_));
    if (!what.op->is_done()) all.push_back(&what);
  }
  kernel_calls::launch(std::move(all));
  for (auto& [by, what] : calls) {
    if (!what.end) continue;
    if (what.is_relayed()) what.op->will_be_relayed();
    by->note_queued(what.op, what.call, std::move(what.end), nullptr);
  }
}

void library_calls::route(lane& on, std::shared_ptr<operation_state> op, library_call call,
                          operation_body body, call_batch* together) {
  if (failed_) return op->finish(std::make_exception_ptr(*failed_));
  if (kernels_.takes(on.kernels, call)) {
    call.data = {};  // as below
    accelerator::stream where = call.stream;
    if (!call.is_in_stream) {
      if (on.own.get() == nullptr) on.own = device_stream(call.side->on());
      where = on.own.get();
    }
    kernel_on_group made{shared_from_this(),
                         {&kernels_, std::move(op), std::move(call), on.kernels, where}};
    if (together == nullptr) return launch_all({&made, 1});
    together->kernels_.push_back(std::move(made));
    return;
  }
  if (on.messages && call.make) {
    call.data = {};  // it owns the group, which owns the lane
    return on.messages->start({.op = std::move(op), .call = std::move(call)});
  }
  const bool by_library = is_by_library(on, call);
  if (on.queue && !by_library) note_by_channels(on, call, together);
  if (is_staged(on, call)) {
    staged_on_group made{shared_from_this(), {std::move(op), std::move(call)}};
    if (together == nullptr) return stage_all({&made, 1});
    together->staged_.push_back(std::move(made));
    return;
  }
  if (!by_library) {
    group_.loop().count_operations(-1);
    if (!body) body = body_of(std::move(call.data));
    return group_.submit(std::move(op), std::move(body));
  }
  call_on_lane made{shared_from_this(), &on, std::move(op), std::move(call)};
  if (together != nullptr) {
    together->ready_.push_back(std::move(made));
  } else {
    queue_all({&made, 1});
  }
}

/// In the order of the calls, also where those of a batch are queued later.
void library_calls::note_by_channels(lane& on, const library_call& what, call_batch* together) {
  if (what.peer != library_call::all_ranks) return;
  if (together == nullptr) return on.queue->note_by_channels(what.what);
  library_call note;
  note.make = [which = what.what](library_queue& by) { by.note_by_channels(which); };
  together->ready_.push_back({shared_from_this(), &on, nullptr, std::move(note)});
}

/// Where a call is made: on the queue's stream, or on the caller's.
class library_calls::queue_use {
 public:
  explicit queue_use(const call_on_lane& of) : by_(*of.on->queue) {
    if (of.call.is_in_stream) by_.use(of.call.stream);
  }
  ~queue_use() { by_.use(std::nullopt); }
  queue_use(const queue_use&) = delete;
  queue_use& operator=(const queue_use&) = delete;

 private:
  library_queue& by_;
};

/// The caller's streams first: those of the queues wait for them.
void library_calls::queue_all(std::span<const call_on_lane> calls) {
  try {
    for (const call_on_lane& each : calls) {
      if (each.op && each.op->beginning())
        each.call.side->await(each.on->queue->stream(), each.op->beginning());
    }
    std::optional<library_queue::batch> together;
    if (calls.size() > 1) together.emplace(*calls.front().on->queue);
    for (const call_on_lane& each : calls) {
      const queue_use used(each);
      each.call.make(*each.on->queue);
    }
    if (together) together->end();
    for (const call_on_lane& each : calls) {
      if (!each.op) continue;
      const library_queue& by = *each.on->queue;
      const accelerator::stream on = each.call.is_in_stream ? each.call.stream : by.stream();
      each.by->note_queued(each.op, each.call, each.call.side->mark(on), &by);
    }
  } catch (...) {
    for (const call_on_lane& each : calls) {
      if (each.op) each.op->finish(std::current_exception());
    }
  }
}

void library_calls::note_queued(const std::shared_ptr<operation_state>& op,
                                const library_call& call, device_side::point end,
                                const library_queue* by) {
  if (call.peer != library_call::all_ranks && !call.is_send) {
    op->bytes = call.message.bytes;
    op->source = call.peer;
  }
  op->was_queued(call.side, std::move(end));
  queued_->add(op, call.name, by);
}

std::string library_calls::text() const {
  const std::lock_guard lock(mutex_);
  const auto found = lanes_.find({library_call::all_ranks, false});
  if (found == lanes_.end() || !found->second.queue) return {};
  return found->second.text;
}

void library_calls::try_fail(const error& why, int tries) {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock || tries >= max_lock_tries) return end_all(why);
  fail_timer_.expires_after(lock_interval);
  fail_timer_.async_wait([weak = weak_from_this(), why, tries](error_code cancelled) {
    const auto self = weak.lock();
    if (self && !cancelled) self->try_fail(why, tries + 1);
  });
}

void library_calls::end_all(const error& why) {
  if (failed_) return;
  failed_ = why;
  group_.note_failure(std::make_exception_ptr(why));
  // First, because what is aborted reaches its end, too.
  queued_->fail(why);
  kernels_.abort();
  for (auto& [key, each] : lanes_) {
    if (each.queue) each.queue->abort(why);
    if (each.messages) each.messages->fail(why);
    start_waiting_on(each);
  }
}

void library_calls::finish_queued() {
  queued_->finish();
  std::vector<std::shared_ptr<operation_state>> staged;
  {
    const std::lock_guard lock(mutex_);
    staged = staged_.in_progress();
  }
  const auto limit = std::chrono::steady_clock::now() + group_.job()->operation_timeout();
  for (const auto& each : staged) each->wait(limit);
}

void call_batch::add(std::shared_ptr<operation_state> op, bool is_send, start_function start) {
  op->may_be_queued();
  op->loop().count_operations(+1);
  op->set_in_batch(true);
  const bool is_message = op->order == operation_state::ordering::point_to_point;
  entries_.push_back({std::move(op), std::move(start), is_message && !is_send});
}

call_batch::~call_batch() {
  for (const entry& each : entries_) {
    each.op->finish(cancelled("the batch that it belongs to was not launched"));
  }
}

void call_batch::launch() {
  std::vector<entry> entries = std::exchange(entries_, {});
  std::ranges::stable_partition(entries, [](const entry& each) { return each.is_receive; });
  kernels_.reserve(entries.size());
  for (const entry& each : entries) {
    each.op->loop().count_operations(-1);
    each.op->set_in_batch(false);
    each.start(*this);
  }
  const auto calls = std::exchange(ready_, {});
  boost::container::small_vector<library_calls*, 8> groups;
  for (const auto& each : calls) groups.push_back(each.by.get());
  auto staged = std::exchange(staged_, {});
  for (const auto& each : staged) groups.push_back(each.by.get());
  auto kernels = std::exchange(kernels_, {});
  for (const auto& each : kernels) groups.push_back(each.by.get());
  std::ranges::sort(groups);  // locked in one order by all threads
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  boost::container::small_vector<std::unique_lock<std::mutex>, 8> locks;
  for (library_calls* const each : groups) locks.emplace_back(each->mutex_);
  std::vector<library_calls::call_on_lane> usable;
  for (const library_calls::call_on_lane& each : calls) {
    if (each.by->failed_) {
      if (each.op) each.op->finish(std::make_exception_ptr(*each.by->failed_));
    } else {
      usable.push_back(each);
    }
  }
  if (!usable.empty()) library_calls::queue_all(usable);
  library_calls::launch_all(kernels);
  library_calls::stage_all(staged);
}

}  // namespace tandem::c
