// The exported functions that make, query and end communicators.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <tandem/detail/stderr_sink.hpp>
#include <vector>

#include "arguments.hpp"
#include "call_group.hpp"
#include "own_ids.hpp"

using namespace tandem::nccl_abi;
using tandem::memory_kind;

namespace {

/// NCCL_DEBUG, as NCCL has it, and TANDEM_LOG; without them nothing is written.
void log_as_requested() {
  static std::once_flag once;
  std::call_once(once, [] {
    const char* const nccl_level = std::getenv("NCCL_DEBUG");
    const std::string_view level = nccl_level == nullptr ? "" : nccl_level;
    if (level == "WARN" || level == "VERSION") {
      tandem::detail::log_to_stderr(tandem::log_level::warning);
    } else if (level == "INFO") {
      tandem::detail::log_to_stderr(tandem::log_level::info);
    } else if (level == "TRACE") {
      tandem::detail::log_to_stderr(tandem::log_level::debug);
    } else if (std::getenv("TANDEM_LOG") != nullptr) {
      tandem_log_to_stderr();
    }
  });
}

bool has_member(const config* how, std::size_t end) {
  return how != nullptr && how->magic == config_magic && how->size >= end;
}

bool is_blocking(const config* how) {
  if (how != nullptr && how->magic != config_magic) {
    refuse(invalid_argument, "the configuration was not initialised with NCCL_CONFIG_INITIALIZER");
  }
  if (!has_member(how, offsetof(config, blocking) + sizeof how->blocking)) return true;
  return how->blocking != 0;
}

template <class Result>
void require_pointer(Result* into, const char* call) {
  if (into == nullptr)
    refuse(invalid_argument, fmt::format("{}: the pointer to the result is NULL", call));
}

void post_join(comm* into, comm_rank::planner plan, memory_kind kind, int device, bool blocking) {
  auto made = std::make_shared<comm_rank>(std::move(plan), kind, device);
  call_group::of_thread().join(std::move(made), blocking, into);
}

void init_rank(comm* into, int ranks, const unique_id& id, int rank, const config* how) {
  log_as_requested();
  require_pointer(into, "ncclCommInitRank");
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    refuse(invalid_argument,
           fmt::format("ncclCommInitRank: rank {} of {}: ranks count from 0", rank, ranks));
  }
  join_plan plan{.at = decode(id), .rank = rank, .size = ranks};
  plan.serves = own_ids::of_process().take(plan.at);
  const own_memory mine = memory_of_thread();
  post_join(
      into, [plan] { return plan; }, mine.kind, mine.device, is_blocking(how));
}

/// The same bytes of all ranks, in their order, through channels.
template <class T>
std::vector<T> exchange(tandem_comm* over, T mine) {
  std::vector<T> all(static_cast<std::size_t>(tandem_comm_size(over)));
  const tandem_buffer from{&mine, sizeof mine, TANDEM_HOST, 0};
  const tandem_buffer into{all.data(), all.size() * sizeof mine, TANDEM_HOST, 0};
  tandem_op* op = nullptr;
  tandem_error why = TANDEM_ERROR_INIT;
  require_ok(tandem_all_gather(over, from, into, nullptr, nullptr, &op, &why), why);
  const tandem_status status = tandem_op_wait(op, -1, &why);
  tandem_op_release(op);
  require_ok(status, why);
  return all;
}

/// A new id, made by the first of the members, which are ranks of `over`.
join_plan meet_again(tandem_comm* over, const std::vector<int>& members) {
  const int self = tandem_comm_rank(over);
  unique_id mine{};
  const bool makes_id = !members.empty() && members.front() == self;
  if (makes_id) mine = own_ids::of_process().make(tandem::settings::from_environment());
  const std::vector<unique_id> all = exchange(over, mine);
  join_plan plan;
  if (members.empty()) return plan;
  plan.at = decode(all[static_cast<std::size_t>(members.front())]);
  plan.serves = makes_id && own_ids::of_process().take(plan.at);
  plan.size = static_cast<int>(members.size());
  plan.rank = static_cast<int>(std::ranges::find(members, self) - members.begin());
  return plan;
}

struct color_and_key {
  int color, key;
};

std::optional<join_plan> plan_split(const comm_rank& of, color_and_key mine) {
  const std::vector<color_and_key> all = exchange(of.channels(), mine);
  std::vector<int> members;
  for (int rank = 0; mine.color >= 0 && rank < of.size(); ++rank) {
    if (all[static_cast<std::size_t>(rank)].color == mine.color) members.push_back(rank);
  }
  std::ranges::stable_sort(members, {},
                           [&](int r) { return all[static_cast<std::size_t>(r)].key; });
  join_plan plan = meet_again(of.channels(), members);
  if (members.empty()) return std::nullopt;
  return plan;
}

/// The ranks that stay send each other messages: those that are left out may be gone, and the store
/// of the job with them.
join_plan plan_shrink(const comm_rank& of, const std::vector<int>& left_out) {
  std::vector<int> stay;
  for (int rank = 0; rank < of.size(); ++rank) {
    if (!std::ranges::count(left_out, rank)) stay.push_back(rank);
  }
  unique_id id{};
  const tandem_buffer message{&id, sizeof id, TANDEM_HOST, 0};
  std::vector<tandem_op*> all;
  tandem_error why = TANDEM_ERROR_INIT;
  const bool makes_id = stay.front() == of.rank();
  if (makes_id) {
    id = own_ids::of_process().make(tandem::settings::from_environment());
    for (std::size_t i = 1; i < stay.size(); ++i) {
      require_ok(tandem_send(of.channels(), message, stay[i], TANDEM_MAX_TAG, nullptr,
                             &all.emplace_back(nullptr), &why),
                 why);
    }
  } else {
    require_ok(tandem_recv(of.channels(), message, stay.front(), TANDEM_MAX_TAG, nullptr,
                           &all.emplace_back(nullptr), &why),
               why);
  }
  tandem_status first = TANDEM_OK;
  for (tandem_op* const each : all) {
    tandem_error failed = TANDEM_ERROR_INIT;
    const tandem_status status = tandem_op_wait(each, -1, &failed);
    if (status != TANDEM_OK && first == TANDEM_OK) {
      first = status;
      why = failed;
    }
    tandem_op_release(each);
  }
  require_ok(first, why);
  join_plan plan;
  plan.at = decode(id);
  plan.serves = makes_id && own_ids::of_process().take(plan.at);
  plan.size = static_cast<int>(stay.size());
  plan.rank = static_cast<int>(std::ranges::find(stay, of.rank()) - stay.begin());
  return plan;
}

}  // namespace

TANDEM_NCCL_FUNCTION(result, ncclGetVersion, (int* into)) {
  return guarded(nullptr, [&] {
    require_pointer(into, "ncclGetVersion");
    *into = version;
    if (const vendor_library* const by = find_opened_library()) by->base->version(into);
  });
}

TANDEM_NCCL_FUNCTION(result, ncclGetUniqueId, (unique_id * into)) {
  return guarded(nullptr, [&] {
    log_as_requested();
    require_pointer(into, "ncclGetUniqueId");
    *into = own_ids::of_process().make(tandem::settings::from_environment());
  });
}

TANDEM_NCCL_FUNCTION(result, ncclCommInitRank, (comm * into, int ranks, unique_id id, int rank)) {
  return guarded(nullptr, [&] { init_rank(into, ranks, id, rank, nullptr); });
}

TANDEM_NCCL_FUNCTION(result, ncclCommInitRankConfig,
                     (comm * into, int ranks, unique_id id, int rank, config* how)) {
  bool blocks = true;
  const result made = guarded(nullptr, [&] {
    blocks = is_blocking(how);
    init_rank(into, ranks, id, rank, how);
  });
  return made == success && !blocks ? in_progress : made;
}

/// Several ids are for jobs too large for one process to serve; the first one serves all.
TANDEM_NCCL_FUNCTION(result, ncclCommInitRankScalable,
                     (comm * into, int ranks, int rank, int id_count, unique_id* ids,
                      config* how)) {
  return guarded(nullptr, [&] {
    if (ids == nullptr || id_count < 1)
      refuse(invalid_argument, "ncclCommInitRankScalable: there is no id");
    init_rank(into, ranks, ids[0], rank, how);
  });
}

TANDEM_NCCL_FUNCTION(result, ncclCommInitAll, (comm * into, int count, const int* devices)) {
  return guarded(nullptr, [&] {
    log_as_requested();
    require_pointer(into, "ncclCommInitAll");
    if (count < 1) refuse(invalid_argument, "ncclCommInitAll: no devices");
    const own_memory mine = memory_of_thread();
    const meeting_point at =
        decode(own_ids::of_process().make(tandem::settings::from_environment()));
    call_group& group = call_group::of_thread();
    group.start();
    for (int rank = 0; rank < count; ++rank) {
      join_plan plan{.at = at, .rank = rank, .size = count};
      plan.serves = rank == 0 && own_ids::of_process().take(at);
      const int device = devices == nullptr ? rank : devices[rank];
      post_join(
          &into[rank], [plan] { return plan; }, mine.kind, device, true);
    }
    group.end();
  });
}

TANDEM_NCCL_FUNCTION(result, ncclCommSplit,
                     (comm of, int color, int key, comm* into, config* how)) {
  return guarded(comm_table::of_process().find(of).get(), [&] {
    require_pointer(into, "ncclCommSplit");
    const auto parent = checked(of, "ncclCommSplit");
    parent->require_ready();
    if (color < no_color) refuse(invalid_argument, fmt::format("ncclCommSplit: color {}", color));
    const bool blocks = is_blocking(how) || color == no_color;
    post_join(
        into,
        [parent, color, key] {
          return plan_split(*parent, {color, key});
        },
        parent->kind(), parent->device(), blocks);
  });
}

TANDEM_NCCL_FUNCTION(result, ncclCommShrink,
                     (comm of, int* left_out, int count, comm* into, config* how, int flags)) {
  return guarded(comm_table::of_process().find(of).get(), [&] {
    require_pointer(into, "ncclCommShrink");
    const auto parent = checked(of, "ncclCommShrink");
    if (flags != 0 || parent->state() != success) {
      refuse(invalid_usage,
             "ncclCommShrink of a communicator that has failed or is to be aborted: the ranks that "
             "are left have to make a new one, with a new unique id");
    }
    const std::vector<int> without(left_out, left_out + std::max(count, 0));
    for (const int each : without) checked_rank(*parent, each, "ncclCommShrink", "rank");
    if (std::ranges::count(without, parent->rank()))
      refuse(invalid_argument, "ncclCommShrink: this rank is to be left out; it must not call it");
    post_join(
        into, [parent, without] { return plan_shrink(*parent, without); }, parent->kind(),
        parent->device(), is_blocking(how));
  });
}

TANDEM_NCCL_FUNCTION(result, ncclCommFinalize, (comm of)) {
  return guarded(nullptr, [&] {
    const auto by = checked(of, "ncclCommFinalize");
    by->finish();
  });
}

TANDEM_NCCL_FUNCTION(result, ncclCommDestroy, (comm of)) {
  if (of == nullptr) return success;
  return guarded(nullptr, [&] {
    checked(of, "ncclCommDestroy");
    const auto removed = comm_table::of_process().remove(of);
    if (removed) removed->finish();
  });
}

TANDEM_NCCL_FUNCTION(result, ncclCommAbort, (comm of)) {
  if (of == nullptr) return success;
  return guarded(nullptr, [&] {
    checked(of, "ncclCommAbort");
    const auto removed = comm_table::of_process().remove(of);
    if (removed) removed->abort("ncclCommAbort was called");
  });
}

TANDEM_NCCL_FUNCTION(result, ncclCommRevoke, (comm of, int flags)) {
  return guarded(nullptr, [&] {
    if (flags != 0) refuse(invalid_argument, "ncclCommRevoke: flags have to be 0");
    checked(of, "ncclCommRevoke")->abort("ncclCommRevoke was called");
  });
}

TANDEM_NCCL_FUNCTION(result, ncclCommGetAsyncError, (comm of, result* into)) {
  return guarded(nullptr, [&] {
    require_pointer(into, "ncclCommGetAsyncError");
    *into = checked(of, "ncclCommGetAsyncError")->state();
  });
}

TANDEM_NCCL_FUNCTION(result, ncclCommCount, (comm of, int* into)) {
  return guarded(nullptr, [&] {
    require_pointer(into, "ncclCommCount");
    const auto by = checked(of, "ncclCommCount");
    by->require_ready();
    *into = by->size();
  });
}

TANDEM_NCCL_FUNCTION(result, ncclCommUserRank, (comm of, int* into)) {
  return guarded(nullptr, [&] {
    require_pointer(into, "ncclCommUserRank");
    const auto by = checked(of, "ncclCommUserRank");
    by->require_ready();
    *into = by->rank();
  });
}

TANDEM_NCCL_FUNCTION(result, ncclCommCuDevice, (comm of, int* into)) {
  return guarded(nullptr, [&] {
    require_pointer(into, "ncclCommCuDevice");
    *into = checked(of, "ncclCommCuDevice")->device();
  });
}

TANDEM_NCCL_FUNCTION(const char*, ncclGetErrorString, (result of)) {
  switch (of) {
    case success:
      return "no error";
    case unhandled_device_error:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case system_error:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case internal_error:
      return "internal error";
    case invalid_argument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case invalid_usage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case remote_error:
      return "remote process exited or there was a network error";
    case in_progress:
      return "operation in progress";
  }
  return "unknown result code";
}

/// Valid until the thread's next call.
TANDEM_NCCL_FUNCTION(const char*, ncclGetLastError, (comm of)) {
  static thread_local std::string text;
  const auto by = comm_table::of_process().find(of);
  text = by ? by->last_error() : last_error_of_thread();
  return text.c_str();
}

TANDEM_NCCL_FUNCTION(void, ncclResetDebugInit, ()) {}

TANDEM_NCCL_FUNCTION(result, ncclGroupStart, ()) {
  call_group::of_thread().start();
  return success;
}

TANDEM_NCCL_FUNCTION(result, ncclGroupEnd, ()) {
  return guarded(nullptr, [] { call_group::of_thread().end(); });
}

TANDEM_NCCL_FUNCTION(result, ncclRedOpCreatePreMulSum,
                     (int* into, void* factor, int of_type, int where, comm of)) {
  return guarded(comm_table::of_process().find(of).get(), [&] {
    require_pointer(into, "ncclRedOpCreatePreMulSum");
    const auto by = checked(of, "ncclRedOpCreatePreMulSum");
    by->require_ready();
    made_sum sum;
    const std::size_t bytes = bytes_of(of_type);
    sum.of = static_cast<type>(of_type);
    if (factor == nullptr) refuse(invalid_argument, "ncclRedOpCreatePreMulSum: no factor");
    if (where == on_host || by->kind() == memory_kind::host) {
      std::memcpy(sum.factor.data(), factor, bytes);
    } else {
      sum.on_device = factor;
    }
    *into = by->add(sum);
  });
}

TANDEM_NCCL_FUNCTION(result, ncclRedOpDestroy, (int op, comm of)) {
  return guarded(comm_table::of_process().find(of).get(),
                 [&] { checked(of, "ncclRedOpDestroy")->remove_sum(op); });
}
