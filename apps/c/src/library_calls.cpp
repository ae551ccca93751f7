#include "library_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <tandem/async.hpp>
#include <tandem/channels.hpp>
#include <tandem/log.hpp>
#include <tandem/stream_messages.hpp>
#include <thread>
#include <utility>

#include "call_batch.hpp"
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

std::shared_ptr<operation_state> library_calls::start_by_kernels(
    library_call& call, std::optional<milliseconds> timeout, call_batch* together) {
  const std::lock_guard lock(mutex_);
  const auto found = lanes_.find({call.peer, call.is_send});
  if (failed_ || found == lanes_.end() || found->second.at != lane::phase::ready) return nullptr;
  const kernel_calls::carriers& by = found->second.kernels;
  if (!by.messages || !kernels_.takes(by, call)) return nullptr;
  if (together != nullptr) {
    auto joined = together->join(*this, call, timeout, {by.messages, call.is_send, call.message});
    if (joined) return joined;
  }
  call.side->require_no_capture(call.stream);
  call.is_in_stream = true;
  auto op = std::make_shared<operation_state>(group_.loop(),
                                              operation_state::ordering::point_to_point, timeout);
  op->kind = call.message.kind;
  op->set_use(call.side->use());
  op->may_be_queued();
  group_.loop().count_operations(+1);
  // The batch keeps the group until then, of which this is a part.
  std::shared_ptr<library_calls> self(group_.shared_from_this(), this);
  kernel_on_group made{std::move(self), kernels_.make_started(op, call, by, call.stream)};
  if (together != nullptr) {
    together->add(std::move(made));
  } else {
    call_batch::launch_all({&made, 1});
  }
  return op;
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

void library_calls::route(lane& on, std::shared_ptr<operation_state> op, library_call call,
                          operation_body body, call_batch* together) {
  if (failed_) return op->finish(std::make_exception_ptr(*failed_));
  if (kernels_.takes(on.kernels, call)) {
    accelerator::stream where = call.stream;
    if (!call.is_in_stream) {
      if (on.own.get() == nullptr) on.own = device_stream(call.side->on());
      where = on.own.get();
    }
    note_received(*op, call);
    kernel_on_group made{shared_from_this(),
                         kernels_.make_started(std::move(op), call, on.kernels, where)};
    if (together == nullptr) return call_batch::launch_all({&made, 1});
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
    if (together == nullptr) return call_batch::stage_all({&made, 1});
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
    call_batch::queue_all({&made, 1});
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

/// When it is complete.
void library_calls::note_received(operation_state& op, const library_call& call) {
  if (call.peer == library_call::all_ranks || call.is_send) return;
  op.bytes = call.message.bytes;
  op.source = call.peer;
}

void library_calls::note_queued(const std::shared_ptr<operation_state>& op, const char* name,
                                const std::shared_ptr<device_side>& side, device_side::point end,
                                const library_queue* by) {
  op->was_queued(side, std::move(end));
  queued_->add(op, name, by);
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

}  // namespace tandem::c
