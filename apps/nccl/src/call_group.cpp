#include "call_group.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace tandem::nccl_abi {
namespace {

struct started_operation {
  std::shared_ptr<comm_rank> by;
  stream on;
  tandem_op* op;
};

struct batch_deleter {
  void operator()(tandem_batch* batch) const noexcept { tandem_batch_destroy(batch); }
};

/// Operations of channels, and who waits for them: several are one batch.
class channel_operations {
 public:
  channel_operations(bool are_several, std::size_t calls)
      : batch_(are_several ? tandem_batch_create() : nullptr) {
    started_.reserve(calls);
  }
  ~channel_operations() {
    for (const started_operation& each : started_) tandem_op_release(each.op);
  }
  channel_operations(const channel_operations&) = delete;
  channel_operations& operator=(const channel_operations&) = delete;

  void add(const posted_call& call) {
    if (call.before) call.before();
    for (const posted_call::start_function& start : call.by_channels) {
      tandem_call how = TANDEM_CALL_INIT;
      how.stream = call.on;
      how.has_stream = call.by->kind() != memory_kind::host;
      how.batch = batch_.get();
      how.in_stream = 1;
      tandem_op* op = nullptr;
      tandem_error why = TANDEM_ERROR_INIT;
      require_ok(start(&how, &op, &why), why);
      started_.push_back({call.by, call.on, op});
    }
  }
  void launch() {
    if (!batch_) return;
    tandem_error why = TANDEM_ERROR_INIT;
    require_ok(tandem_batch_launch(batch_.get(), &why), why);
  }
  /// All of them, then throws the first failure.
  void wait() {
    std::exception_ptr first;
    const c::operation_state* before = nullptr;
    for (const started_operation& each : std::exchange(started_, {})) {
      // Messages that are launched together are one operation.
      if (each.op->state.get() == before) {
        tandem_op_release(each.op);
        continue;
      }
      before = each.op->state.get();
      tandem_error why = TANDEM_ERROR_INIT;
      const tandem_status status = each.by->kind() == memory_kind::host
                                       ? tandem_op_wait(each.op, -1, &why)
                                       : tandem_op_wait_stream(each.op, each.on, &why);
      if (status != TANDEM_OK && !first)
        first = std::make_exception_ptr(failure(result_of(status), why.text));
      each.by->keep(each.op);
    }
    if (first) std::rethrow_exception(first);
  }

 private:
  const std::unique_ptr<tandem_batch, batch_deleter> batch_;
  std::vector<started_operation> started_;
};

/// The communicators of calls of the library, which are not aborted meanwhile.
class library_locks {
 public:
  explicit library_locks(const std::vector<const posted_call*>& calls) {
    for (const posted_call* const each : calls) held_.push_back(&each->by->library_mutex());
    std::ranges::sort(held_);  // one order in all threads
    const auto repeated = std::ranges::unique(held_);
    held_.erase(repeated.begin(), repeated.end());
    for (std::timed_mutex* const each : held_) each->lock();
  }
  ~library_locks() {
    for (std::timed_mutex* const each : held_) each->unlock();
  }
  library_locks(const library_locks&) = delete;
  library_locks& operator=(const library_locks&) = delete;

 private:
  std::vector<std::timed_mutex*> held_;
};

void call_library(const posted_call& what, const detail::nccl& library) {
  const current_device_guard on(*what.by);
  if (what.before) what.before();
  what.by_library(library, what.by->native());
}

/// A call outside of a group, without what a group needs.
void run_by_library(const posted_call& one) {
  const std::lock_guard held(one.by->library_mutex());
  call_library(one, *one.by->library().base);
}

void run_by_library(const std::vector<const posted_call*>& calls) {
  if (calls.empty()) return;
  const library_locks held(calls);
  const detail::nccl& library = *calls.front()->by->library().base;
  if (calls.size() == 1) {
    call_library(*calls.front(), library);
    return;
  }
  require_ok(library.group_start(), library, nullptr, "ncclGroupStart");
  std::exception_ptr first;
  for (const posted_call* const each : calls) {
    try {
      call_library(*each, library);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  const detail::nc::result ended = library.group_end();
  if (first) std::rethrow_exception(first);
  require_ok(ended, library, calls.front()->by->native(), "ncclGroupEnd");
}

}  // namespace

call_group& call_group::of_thread() noexcept {
  static thread_local call_group own;
  return own;
}

void call_group::post(posted_call call) {
  if (depth_ > 0) {
    calls_.push_back(std::move(call));
    return;
  }
  if (call.by->is_one_island()) return run_by_library(call);
  run_calls({&call, 1});
}

void call_group::join(std::shared_ptr<comm_rank> rank, bool is_blocking, comm* into) {
  *into = nullptr;
  std::vector<joining> one;
  one.push_back({std::move(rank), is_blocking, into});
  if (depth_ > 0) {
    joins_.push_back(std::move(one.front()));
  } else {
    run_joins(std::move(one));
  }
}

void call_group::end() {
  if (depth_ == 0) refuse(invalid_usage, "ncclGroupEnd without ncclGroupStart");
  if (--depth_ > 0) return;
  std::vector<joining> joins = std::exchange(joins_, {});
  std::vector<posted_call> calls = std::exchange(calls_, std::move(spare_));
  if (!joins.empty() && !calls.empty()) {
    refuse(invalid_usage,
           "a group joins communicators or makes calls, not both: end it in between");
  }
  if (!joins.empty()) run_joins(std::move(joins));
  for (const posted_call& each : calls) each.by->require_ready();
  if (calls.empty()) return;
  run_calls(calls);
  calls.clear();
  spare_ = std::move(calls);
}

/// At the same time, as each waits for the others.
void call_group::run_joins(std::vector<joining> all) {
  std::exception_ptr first;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (joining& each : all) {
    if (!each.is_blocking) {
      *each.into = comm_table::of_process().add(each.rank);
      each.rank->start_to_join();
      continue;
    }
    const auto join = [&each, &first, &mutex] {
      try {
        if (each.rank->join()) *each.into = comm_table::of_process().add(each.rank);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    };
    if (all.size() == 1) {
      join();
    } else {
      threads.push_back(c::start_thread("tandem-join", join));
    }
  }
  for (std::thread& each : threads) each.join();
  if (first) std::rethrow_exception(first);
}

void call_group::run_calls(std::span<const posted_call> all) {
  std::vector<const posted_call*> by_library;
  std::optional<channel_operations> by_channels;
  const bool are_several = all.size() > 1 || all.front().by_channels.size() > 1;
  for (const posted_call& each : all) {
    if (each.by->is_one_island()) {
      by_library.push_back(&each);
    } else {
      if (!by_channels) by_channels.emplace(are_several, all.size());
      by_channels->add(each);
    }
  }
  if (by_channels) by_channels->launch();
  run_by_library(by_library);
  if (by_channels) by_channels->wait();
}

}  // namespace tandem::nccl_abi
