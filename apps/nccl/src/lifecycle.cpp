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
#include "joining.hpp"
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
