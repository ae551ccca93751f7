#include "call_group.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "arguments.hpp"

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
    for (const posted_call::start_function& start : call.messages) {
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
  explicit library_locks(std::span<const library_call> calls) {
    for (const library_call& each : calls) add(&each.by->mutex);
    for (detail::polled_mutex* const each : held_) each->lock();
  }
  ~library_locks() {
    for (detail::polled_mutex* const each : held_) each->unlock();
  }
  library_locks(const library_locks&) = delete;
  library_locks& operator=(const library_locks&) = delete;

 private:
  /// One order in all threads.
  void add(detail::polled_mutex* which) {
    if (!held_.empty() && held_.back() == which) return;
    const auto at = std::ranges::lower_bound(held_, which);
    if (at == held_.end() || *at != which) held_.insert(at, which);
  }

  boost::container::small_vector<detail::polled_mutex*, 4> held_;
};

/// @param name  of the program's call that launches them @pre the communicators are locked
void launch_by_library(std::span<const library_call> calls, const char* name) {
  const detail::nccl& library = *calls.front().by->library;
  require_ok(library.group_start(), library, nullptr, name);
  std::exception_ptr first;
  for (const library_call& each : calls) {
    try {
      make_call(each);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  const detail::nc::result ended = library.group_end();
  if (first) std::rethrow_exception(first);
  require_ok(ended, library, calls.front().by->native, name);
}

void run_by_library(std::span<const library_call> calls, const char* name) {
  if (calls.empty()) return;
  const comm first = calls.front().by;
  if (std::ranges::all_of(calls, [first](const library_call& each) { return each.by == first; })) {
    const std::lock_guard held(first->mutex);
    return calls.size() == 1 ? make_call(calls.front()) : launch_by_library(calls, name);
  }
  const library_locks held(calls);
  launch_by_library(calls, name);
}

/// @param into  none if there are no calls
void start_by_channels(std::span<const posted_call> calls,
                       std::optional<channel_operations>& into) {
  if (calls.empty()) return;
  const bool are_several = calls.size() > 1 || calls.front().messages.size() > 1;
  into.emplace(are_several, calls.size());
  for (const posted_call& each : calls) into->add(each);
  into->launch();
}

}  // namespace

call_group& call_group::of_thread() noexcept {
  // One access to the thread's memory, not one for each of a function's variables.
  static thread_local call_group* known = nullptr;
  if (known != nullptr) return *known;
  static thread_local call_group own;
  known = &own;
  return own;
}

void call_group::post(posted_call call) {
  if (depth_ > 0) {
    calls_.push_back(std::move(call));
    return;
  }
  std::optional<channel_operations> started;
  start_by_channels({&call, 1}, started);
  started->wait();
}

void call_group::run(const library_call& call) {
  run_by_library({&call, 1}, call.name);
}

void call_group::new_calls::post(comm by) {
  if (!of_.knows(by)) of_.recent_[of_.next_recent_++ % of_.recent_.size()] = by;
  const std::span<const library_call> all = std::span(of_.by_library_).subspan(first_);
  if (all.empty()) return;
  if (of_.depth_ == 0) return run_by_library(all, all.front().name);
  first_ = of_.by_library_.size();
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

/// With the reason, where another thread or the loss of a rank has closed one since.
void call_group::require_ready(std::span<const library_call> calls) {
  for (const library_call& each : calls) {
    if (!each.by->is_open) checked(each.by, each.name)->require_ready();
  }
}

void call_group::end() {
  if (depth_ == 0) refuse(invalid_usage, "ncclGroupEnd without ncclGroupStart");
  if (--depth_ > 0) return;
  if (joins_.empty() && calls_.empty() && by_library_.empty()) return;
  const auto clear = [this](void*) {
    joins_.clear();
    calls_.clear();
    drop_from(0);
  };
  const std::unique_ptr<void, decltype(clear)> at_end(this, clear);
  if (joins_.empty()) return run_calls();
  if (!calls_.empty() || !by_library_.empty()) {
    refuse(invalid_usage,
           "a group joins communicators or makes calls, not both: end it in between");
  }
  run_joins(std::exchange(joins_, {}));
}

[[gnu::flatten, gnu::hot]] void call_group::run_calls() {
  for (const posted_call& each : calls_) each.by->require_ready();
  require_ready(by_library_);
  if (calls_.empty()) return run_by_library(by_library_, "ncclGroupEnd");
  std::optional<channel_operations> by_channels;
  start_by_channels(calls_, by_channels);
  run_by_library(by_library_, "ncclGroupEnd");
  by_channels->wait();
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

}  // namespace tandem::nccl_abi
