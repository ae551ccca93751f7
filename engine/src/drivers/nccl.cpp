#include <fmt/format.h>

#include <atomic>
#include <span>
#include <tandem/detail/nccl.hpp>
#include <utility>

#include "drivers/opening.hpp"
#include "drivers/symbols.hpp"

namespace tandem::detail {
namespace {

std::atomic<const nccl*> nccl_replacement{nullptr};

/// Of `set_nccl`.
struct {
  bool is_set = false;
  void* opened = nullptr;
  std::string why_none;
} given;

void fill(nccl& into, symbols& in) {
  in.find(into.version, "ncclGetVersion");
  in.find(into.error_string, "ncclGetErrorString");
  in.find_optional(into.last_error, "ncclGetLastError");
  in.find(into.get_unique_id, "ncclGetUniqueId");
  in.find(into.init_rank, "ncclCommInitRank");
  in.find(into.destroy, "ncclCommDestroy");
  in.find(into.abort, "ncclCommAbort");
  in.find(into.async_error, "ncclCommGetAsyncError");
  in.find(into.group_start, "ncclGroupStart");
  in.find(into.group_end, "ncclGroupEnd");
  in.find(into.all_reduce, "ncclAllReduce");
  in.find(into.broadcast, "ncclBroadcast");
  in.find(into.reduce, "ncclReduce");
  in.find(into.all_gather, "ncclAllGather");
  in.find(into.reduce_scatter, "ncclReduceScatter");
  in.find_optional(into.all_to_all, "ncclAlltoAll");
  in.find_optional(into.gather, "ncclGather");
  in.find_optional(into.scatter, "ncclScatter");
  in.find(into.send, "ncclSend");
  in.find(into.recv, "ncclRecv");
  in.find(into.make_premultiplied_sum, "ncclRedOpCreatePreMulSum");
  in.find(into.free_op, "ncclRedOpDestroy");
}

struct opened_nccl {
  nccl functions{};
  std::string why;  ///< empty: available

  opened_nccl(opening_step& step, std::span<const char* const> names, std::string_view stem,
              std::string_view vendor, std::string_view advice) {
    step = "loading its library";
    std::string failure;
    void* const found = given.is_set ? given.opened : open_library(names, stem, failure);
    if (given.is_set) failure = given.why_none;
    if (found == nullptr) {
      why = fmt::format("no {} here: {}; {}", vendor, failure, advice);
      return;
    }
    symbols in(found);
    fill(functions, in);
    if (!in.missing().empty()) {
      why = fmt::format("no {} here: {} has no {}; {}", vendor, stem, in.missing(), advice);
    }
  }
};

}  // namespace

const nccl* find_nccl(memory_kind of, std::string& why) {
  if (const nccl* const by = nccl_replacement.load()) return by;
  const auto functions_of = [](const opened_nccl* found) {
    return found != nullptr ? &found->functions : nullptr;
  };
  if (of == memory_kind::hip) {
    static constexpr const char* names[] = {"librccl.so.1", "librccl.so"};
    static auto& rccl = *new opening<opened_nccl>;
    return functions_of(rccl.get("RCCL", why, std::span<const char* const>(names), "librccl",
                                 "RCCL",
                                 "install rccl of ROCm, or add its folder to LD_LIBRARY_PATH"));
  }
  static constexpr const char* names[] = {"libnccl.so.2"};
  static auto& here = *new opening<opened_nccl>;
  return functions_of(
      here.get("NCCL", why, std::span<const char* const>(names), "libnccl", "NCCL",
               "install libnccl2 2.11 or newer, or add the folder of the one that comes "
               "with PyTorch (nvidia/nccl/lib) to LD_LIBRARY_PATH"));
}

void set_nccl(void* opened, std::string why_none) {
  given = {true, opened, std::move(why_none)};
}

void replace_nccl(const nccl* by) noexcept {
  nccl_replacement.store(by);
}

}  // namespace tandem::detail
