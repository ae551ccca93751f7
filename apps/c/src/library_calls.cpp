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

#include "group_of_ranks.hpp"
#include "job_state.hpp"
#include "message_lane.hpp"
#include "status.hpp"

namespace tandem::c {
namespace {

using std::chrono::milliseconds;

/// How often completed operations are let go of, and time limits looked at.
constexpr milliseconds look_interval{100};
/// A thread that queues a call holds the lock, for ever if the device is full of work that waits
/// for a lost rank: then the library is aborted without it.
constexpr milliseconds lock_interval{10};
constexpr int max_lock_tries = 200;
constexpr std::uint16_t introduction_tag = own_tag;

}  // namespace

library_calls::library_calls(group_of_ranks& group, stream_order order)
    : group_(group),
      may_use_library_(order == stream_order::by_library),
      look_timer_(group.loop().executor()),
      fail_timer_(group.loop().executor()) {}

void library_calls::start(std::shared_ptr<operation_state> op, library_call call,
                          operation_body body, call_batch* together) {
  op->may_be_queued();
  group_.loop().count_operations(+1);
  const std::lock_guard lock(mutex_);
  lane& on = lanes_[{call.peer, call.is_send}];
  if (on.at == lane::phase::unknown && has_lane(call) && !failed_) start_lanes(call);
  if (on.at == lane::phase::starting) {
    on.waiting.push_back([this, &on, op, call, body] { route(on, op, call, body, nullptr); });
  } else {
    route(on, std::move(op), std::move(call), std::move(body), together);
  }
}

void library_calls::route(lane& on, std::shared_ptr<operation_state> op, library_call call,
                          operation_body body, call_batch* together) {
  if (failed_) return op->finish(std::make_exception_ptr(*failed_));
  if (on.messages && call.make) {
    return on.messages->start({.op = std::move(op), .call = std::move(call)});
  }
  if (!on.queue || !call.make || (call.is_possible && !call.is_possible(*on.queue))) {
    group_.loop().count_operations(-1);
    return group_.submit(std::move(op), std::move(body));
  }
  call_on_lane made{shared_from_this(), &on, std::move(op), std::move(call)};
  if (together != nullptr) {
    together->ready_.push_back(std::move(made));
  } else {
    queue_all({&made, 1});
  }
}

/// The caller's streams first: those of the queues wait for them.
void library_calls::queue_all(std::span<const call_on_lane> calls) {
  try {
    for (const call_on_lane& each : calls) {
      if (const device_side::point& begin = each.op->beginning())
        each.call.side->await(each.on->queue->stream(), begin);
    }
    std::optional<library_queue::batch> together;
    if (calls.size() > 1) together.emplace(*calls.front().on->queue);
    for (const call_on_lane& each : calls) each.call.make(*each.on->queue);
    if (together) together->end();
    for (const call_on_lane& each : calls) {
      const library_queue& by = *each.on->queue;
      each.by->note_queued(each.op, each.call, by.stream(), &by);
    }
  } catch (...) {
    for (const call_on_lane& each : calls) each.op->finish(std::current_exception());
  }
}

void library_calls::note_queued(const std::shared_ptr<operation_state>& op,
                                const library_call& call, accelerator::stream on,
                                const library_queue* by) {
  if (call.peer != library_call::all_ranks && !call.is_send) {
    op->bytes = call.message.bytes;
    op->source = call.peer;
  }
  op->was_queued(call.side, call.side->mark(on));
  const milliseconds limit = op->timeout.value_or(group_.job()->operation_timeout());
  const std::lock_guard lock(queued_mutex_);
  queued_.push_back({op, call.name, by, std::chrono::steady_clock::now() + limit});
  if (std::exchange(is_looking_, true)) return;
  group_.loop().submit([self = shared_from_this()] { self->look_again(); });
}

void library_calls::start_lanes(const library_call& first) {
  const bool is_message = first.peer != library_call::all_ranks;
  lanes_[{first.peer, first.is_send}].at = lane::phase::starting;
  if (is_message) lanes_[{first.peer, !first.is_send}].at = lane::phase::starting;
  using ordering = operation_state::ordering;
  auto introduction = std::make_shared<operation_state>(
      group_.loop(), is_message ? ordering::point_to_point : ordering::collective, std::nullopt);
  library_call like;
  like.peer = first.peer;
  like.side = first.side;
  group_.submit(std::move(introduction), [self = shared_from_this(), like](operation_state&) {
    return self->make_lanes(like);
  });
}

asio::awaitable<void> library_calls::make_lanes(library_call like) {
  // The caller holds the lock.
  co_await asio::post(group_.loop().executor(), asio::use_awaitable);
  std::exception_ptr failure;
  try {
    co_await try_make_lanes(like);
  } catch (...) {
    failure = std::current_exception();
  }
  if (!failure) co_return;
  fail(as_error(failure));
  std::rethrow_exception(failure);
}

asio::awaitable<void> library_calls::try_make_lanes(const library_call& like) {
  const accelerator& device = like.side->on();
  const island_member mine(device.kind(), device.device(), group_.job()->island());
  library_queue::failure_handler lost = when_lost();
  if (like.peer == library_call::all_ranks) {
    library_queue::made made = co_await library_queue::make(group_.ranks(), mine, std::move(lost));
    if (made.has_levels) {
      made.text += ", channels between them";
      std::unique_ptr<communicator> islands =
          co_await make_island_communicator(group_.ranks(), mine);
      group_.set_islands(std::move(islands));
    } else if (!made.queue) {
      made.text = "channels: " + made.text;
    }
    const std::lock_guard lock(mutex_);
    lane& all = set_lane(like, false, std::move(made.text));
    all.queue = std::move(made.queue);
    log_lane(like, all);
  } else {
    library_queue::made_pair made;
    made.text = "the ranks may not use their vendor's library";
    if (may_use_library_) {
      made = co_await library_queue::make_pair(group_.ranks(), like.peer, mine, introduction_tag,
                                               std::move(lost));
    }
    if (made.sends) {
      const std::lock_guard lock(mutex_);
      set_lane(like, true, made.text).queue = std::move(made.sends);
      lane& receives = set_lane(like, false, std::move(made.text));
      receives.queue = std::move(made.receives);
      log_lane(like, receives);
    } else {
      co_await make_message_lanes(like, std::move(made.text));
    }
  }
  co_await start_waiting(like.peer);
}

asio::awaitable<void> library_calls::make_message_lanes(const library_call& like,
                                                        std::string why_no_library) {
  stream_messages::shared_words shared;
  try {
    const auto words = std::make_shared<shm::shared_buffer>(stream_messages::words_bytes);
    shared = {words->view(), words};
  } catch (const error& why) {
    log(log_level::warning, "groups",
        fmt::format("messages with rank {} by channels: {}", like.peer, why.what()));
  }
  stream_messages::failure_handler lost = when_lost();
  stream_messages::made made = co_await stream_messages::make(
      group_.ranks(), like.peer, like.side->on(), std::move(shared), std::move(lost));
  std::string text = "channels: " + why_no_library;
  if (made.messages) {
    text = "copy engines in the order of streams: " + why_no_library;
  } else {
    log(log_level::debug, "groups",
        fmt::format("messages with rank {} not in the order of streams: {}", like.peer,
                    made.why_not));
  }
  const std::shared_ptr<stream_messages> by = std::move(made.messages);
  message_lane::queued_handler queued = [weak = weak_from_this()](const message_lane::entry& which,
                                                                  accelerator::stream on) {
    if (const auto self = weak.lock()) self->note_queued(which.op, which.call, on, nullptr);
  };
  message_lane::failure_handler failed = [weak = weak_from_this()](const error& why) {
    const auto self = weak.lock();
    if (!self) return;
    if (why.code() == errc::timed_out) self->group_.job()->fail(why);
    self->fail(why);
  };
  const std::lock_guard lock(mutex_);
  for (const bool is_send : {true, false}) {
    lane& each = set_lane(like, is_send, text);
    if (by) each.messages = std::make_shared<message_lane>(group_, by, is_send, queued, failed);
    if (!is_send) log_lane(like, each);
  }
}

std::function<void(const error&)> library_calls::when_lost() {
  return [weak = weak_from_this()](const error& why) {
    if (const auto self = weak.lock()) self->fail(why);
  };
}

library_calls::lane& library_calls::set_lane(const library_call& like, bool is_send,
                                             std::string text) {
  lane& made = lanes_[{like.peer, is_send}];
  made.text = std::move(text);
  return made;
}

void library_calls::log_lane(const library_call& like, const lane& made) const {
  const std::string what = like.peer == library_call::all_ranks
                               ? std::string("collectives")
                               : fmt::format("messages with rank {}", like.peer);
  const std::string line =
      fmt::format("{}: {} on device memory by {}", group_.ranks_text(), what, made.text);
  // With other devices at hand it is a mistake, and slow.
  const bool is_mistake = made.text.find("share a device") != std::string::npos &&
                          find_accelerators(like.side->on().kind()).found.size() > 1;
  if (is_mistake) {
    log(log_level::warning, "groups",
        line +
            "; give each rank a GPU of its own (torch.cuda.set_device(LOCAL_RANK)) before it "
            "makes tensors");
  } else {
    log(log_level::info, "groups", line);
  }
}

void library_calls::start_waiting_on(lane& on) {
  on.at = lane::phase::ready;
  for (const auto& start : std::exchange(on.waiting, {})) start();
}

/// On a thread of its own: the library connects ranks in their first call, and blocks its caller
/// until the others make it, which need this rank's loop.
asio::awaitable<void> library_calls::start_waiting(int peer) {
  const asio::any_io_executor executor = group_.loop().executor();
  async_condition changed(executor);
  bool is_over = false;
  std::thread starter = start_thread("tandem-connect", [&, self = shared_from_this()]() mutable {
    {
      const std::lock_guard lock(mutex_);
      for (auto& [key, each] : lanes_) {
        if (key.first == peer) start_waiting_on(each);
      }
    }
    asio::post(executor, [&, self = std::move(self)] {
      is_over = true;
      changed.notify_all();
    });
  });
  starter.detach();
  // The thread uses this frame. A job that ends aborts the library, which lets the thread go.
  co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
  while (!is_over) co_await changed.wait();
}

std::string library_calls::text() const {
  const std::lock_guard lock(mutex_);
  const auto found = lanes_.find({library_call::all_ranks, false});
  if (found == lanes_.end() || !found->second.queue) return {};
  return found->second.text;
}

void library_calls::look_again() {
  look_timer_.expires_after(look_interval);
  look_timer_.async_wait([weak = weak_from_this()](error_code cancelled) {
    const auto self = weak.lock();
    if (self && !cancelled) self->look();
  });
}

void library_calls::look() {
  std::unique_lock lock(queued_mutex_);
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(queued_, [](const queued_operation& each) { return each.op->finish_if_reached(); });
  const auto late = std::ranges::find_if(
      queued_, [now](const queued_operation& each) { return each.deadline <= now; });
  is_looking_ = !queued_.empty();
  if (is_looking_) look_again();
  if (late == queued_.end()) return;
  const std::string missing = late->by == nullptr ? std::string() : late->by->missing_text();
  const error why(
      errc::timed_out,
      {.rank = group_.job()->rank(),
       .rail = {},
       .phase = {},
       .detail = fmt::format("{} among {}, in the order of streams: not complete "
                             "within its time limit{}{}",
                             late->name, group_.ranks_text(), missing.empty() ? "" : ": ", missing),
       .advice = "look for a rank that has not made the same call, or give operations "
                 "more time"});
  lock.unlock();
  group_.job()->fail(why);
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
  std::deque<queued_operation> queued;
  {
    const std::lock_guard lock(queued_mutex_);
    queued.swap(queued_);
  }
  for (const queued_operation& each : queued) {
    if (!each.op->finish_if_reached()) each.op->finish(std::make_exception_ptr(why));
  }
  for (auto& [key, each] : lanes_) {
    if (each.queue) each.queue->abort(why);
    if (each.messages) each.messages->fail(why);
    start_waiting_on(each);
  }
}

void library_calls::finish_queued() {
  std::vector<queued_operation> all;
  {
    const std::lock_guard lock(queued_mutex_);
    all.assign(queued_.begin(), queued_.end());
  }
  for (const queued_operation& each : all) {
    if (each.op->is_answered()) each.op->wait(each.deadline);
  }
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
  for (const entry& each : entries) {
    each.op->loop().count_operations(-1);
    each.op->set_in_batch(false);
    each.start(*this);
  }
  const auto calls = std::exchange(ready_, {});
  std::vector<library_calls*> groups;
  for (const auto& each : calls) groups.push_back(each.by.get());
  std::ranges::sort(groups);  // locked in one order by all threads
  groups.erase(std::ranges::unique(groups).begin(), groups.end());
  std::vector<std::unique_lock<std::mutex>> locks;
  for (library_calls* const each : groups) locks.emplace_back(each->mutex_);
  std::vector<library_calls::call_on_lane> usable;
  for (const library_calls::call_on_lane& each : calls) {
    if (each.by->failed_) {
      each.op->finish(std::make_exception_ptr(*each.by->failed_));
    } else {
      usable.push_back(each);
    }
  }
  if (!usable.empty()) library_calls::queue_all(usable);
}

}  // namespace tandem::c
