#include "call_batch.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "job_state.hpp"

namespace tandem::c {

void call_batch::stage_all(std::span<library_calls::staged_on_group> calls) {
  const auto each_one = [calls](auto function) {
    for (library_calls::staged_on_group& each : calls) {
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

void call_batch::launch_all(std::span<library_calls::kernel_on_group> calls) {
  kernel_calls::started_together all;
  for (auto& [by, what, position] : calls) {
    if (by->failed_) what.op->finish(std::make_exception_ptr(*by->failed_));
    if (!what.op->is_done()) all.push_back(&what);
  }
  kernel_calls::launch(all);
  for (auto& [by, what, position] : calls) {
    if (!what.end) continue;
    if (what.is_relayed()) what.op->will_be_relayed();
    by->note_queued(what.op, what.name, what.side, std::move(what.end), nullptr);
  }
}

/// Where a call is made: on the queue's stream, or on the caller's.
class call_batch::queue_use {
 public:
  explicit queue_use(const library_calls::call_on_lane& of) : by_(*of.on->queue) {
    if (of.call.is_in_stream) by_.use(of.call.stream);
  }
  ~queue_use() { by_.use(std::nullopt); }
  queue_use(const queue_use&) = delete;
  queue_use& operator=(const queue_use&) = delete;

 private:
  library_queue& by_;
};

/// The caller's streams first: those of the queues wait for them.
void call_batch::queue_all(std::span<const library_calls::call_on_lane> calls) {
  try {
    for (const library_calls::call_on_lane& each : calls) {
      if (each.op && each.op->beginning())
        each.call.side->await(each.on->queue->stream(), each.op->beginning());
    }
    std::optional<library_queue::batch> together;
    if (calls.size() > 1) together.emplace(*calls.front().on->queue);
    for (const library_calls::call_on_lane& each : calls) {
      const queue_use used(each);
      each.call.make(*each.on->queue);
    }
    if (together) together->end();
    for (const library_calls::call_on_lane& each : calls) {
      if (!each.op) continue;
      const library_queue& by = *each.on->queue;
      const accelerator::stream on = each.call.is_in_stream ? each.call.stream : by.stream();
      library_calls::note_received(*each.op, each.call);
      each.by->note_queued(each.op, each.call.name, each.call.side, each.call.side->mark(on), &by);
    }
  } catch (...) {
    for (const library_calls::call_on_lane& each : calls) {
      if (each.op) each.op->finish(std::current_exception());
    }
  }
}

void call_batch::add(std::shared_ptr<operation_state> op, bool is_send, start_function start) {
  op->may_be_queued();
  op->loop().count_operations(+1);
  op->set_in_batch(true);
  const bool is_message = op->order == operation_state::ordering::point_to_point;
  entries_.push_back({std::move(op), is_message && !is_send, std::move(start)});
}

void call_batch::add(library_calls::kernel_on_group message) {
  const std::shared_ptr<operation_state> op = message.what.op;
  op->set_in_batch(true);
  if (entries_.empty()) {
    kernels_.push_back(std::move(message));
  } else {
    entries_.push_back({op, !message.what.messages.front().is_send, {}, std::move(message)});
  }
}

/// Messages to or from one rank keep their order.
std::shared_ptr<operation_state> call_batch::join(const library_calls& by, const library_call& call,
                                                  std::optional<std::chrono::milliseconds> timeout,
                                                  const kernel_calls::message& what) {
  if (!entries_.empty()) return nullptr;
  const auto last = std::find_if(kernels_.rbegin(), kernels_.rend(),
                                 [&by](const auto& each) { return each.by.get() == &by; });
  if (last == kernels_.rend()) return nullptr;
  kernel_calls::started& to = last->what;
  const bool is_beside_it = to.side == call.side && to.on == call.stream;
  if (!is_beside_it || to.op->timeout != timeout) return nullptr;
  to.name = "a batch of messages";
  to.messages.push_back(what);
  return to.op;
}

call_batch::~call_batch() {
  progress* loop = nullptr;
  const auto end = [&loop](operation_state& op) {
    loop = &op.loop();
    op.finish(cancelled("the batch that it belongs to was not launched"));
    op.set_in_batch(false);
  };
  for (const entry& each : entries_) end(*each.op);
  for (const auto& each : kernels_) end(*each.what.op);
  if (loop == nullptr || !loop->is_here()) return;
  loop->run_now([this] {  // it may own groups, which end on the loop
    entries_.clear();
    kernels_.clear();
  });
}

void call_batch::launch() {
  for (const auto& each : kernels_) each.what.op->set_in_batch(false);
  std::vector<entry> entries = std::exchange(entries_, {});
  for (const bool are_receives : {true, false}) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      entry& each = entries[i];
      if (each.is_receive != are_receives) continue;
      const std::size_t before = kernels_.size();
      each.op->set_in_batch(false);
      if (each.by_kernels) {
        kernels_.push_back(std::move(*each.by_kernels));
      } else {
        each.op->loop().count_operations(-1);
        each.start(*this);
      }
      for (std::size_t k = before; k < kernels_.size(); ++k) kernels_[k].position = i + 1;
    }
  }
  // Kernels in the order of the calls, for all messages of a stream are one launch only if none
  // between two of them is of another stream.
  if (!entries.empty()) {
    std::ranges::stable_sort(kernels_, {}, &library_calls::kernel_on_group::position);
  }
  const bool are_groups_usable = launch_started();
  const auto release = [this, &entries] {
    entries.clear();
    kernels_.clear();
  };
  if (are_groups_usable) return release();
  const operation_state& any = kernels_.empty() ? *entries.front().op : *kernels_.front().what.op;
  any.loop().run_now(release);  // it may own groups, which end on the loop
}

/// False: a group has ended.
bool call_batch::launch_started() {
  const auto calls = std::exchange(ready_, {});
  boost::container::small_vector<library_calls*, 8> groups;
  for (const auto& each : calls) groups.push_back(each.by.get());
  auto staged = std::exchange(staged_, {});
  for (const auto& each : staged) groups.push_back(each.by.get());
  for (const auto& each : kernels_) groups.push_back(each.by.get());
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
  if (!usable.empty()) queue_all(usable);
  launch_all(kernels_);
  stage_all(staged);
  return std::ranges::none_of(groups,
                              [](const library_calls* each) { return each->failed_.has_value(); });
}

}  // namespace tandem::c
