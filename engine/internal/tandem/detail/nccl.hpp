#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <tandem/memory.hpp>

namespace tandem::detail {

/// Types and constants of nccl.h; RCCL has the same functions, values and layouts (NCCL 2.11 and
/// newer).
namespace nc {
using result = int;  ///< 0: success
using comm = struct comm_of*;
using stream = void*;
struct unique_id {
  std::array<char, 128> bytes;
};
inline constexpr result success = 0, system_error = 2, in_progress = 7;
// ncclDataType_t
inline constexpr int int8 = 0, uint8 = 1, int32 = 2, uint32 = 3, int64 = 4, uint64 = 5, float16 = 6,
                     float32 = 7, float64 = 8, bfloat16 = 9, float8_e4m3 = 10, float8_e5m2 = 11;
// ncclRedOp_t
inline constexpr int sum = 0, product = 1, maximum = 2, minimum = 3, average = 4;
inline constexpr int scalar_in_host_memory = 1;
}  // namespace nc

/// The functions of a vendor's collectives library. Calls that move data only enqueue on a stream;
/// all ranks of a communicator must make them in the same order.
struct nccl {
  nc::result (*version)(int* into);
  const char* (*error_string)(nc::result of);
  /// Null in libraries before 2.13.
  const char* (*last_error)(nc::comm of);
  nc::result (*get_unique_id)(nc::unique_id* into);
  /// Blocks until all ranks have called it.
  nc::result (*init_rank)(nc::comm* into, int ranks, nc::unique_id id, int rank);
  nc::result (*destroy)(nc::comm which);
  nc::result (*abort)(nc::comm which);
  nc::result (*async_error)(nc::comm of, nc::result* into);
  nc::result (*group_start)();
  nc::result (*group_end)();
  nc::result (*all_reduce)(const void* from, void* into, std::size_t count, int type, int op,
                           nc::comm over, nc::stream on);
  nc::result (*broadcast)(const void* from, void* into, std::size_t count, int type, int root,
                          nc::comm over, nc::stream on);
  nc::result (*reduce)(const void* from, void* into, std::size_t count, int type, int op, int root,
                       nc::comm over, nc::stream on);
  nc::result (*all_gather)(const void* from, void* into, std::size_t count_of_each, int type,
                           nc::comm over, nc::stream on);
  nc::result (*reduce_scatter)(const void* from, void* into, std::size_t count_of_each, int type,
                               int op, nc::comm over, nc::stream on);
  /// NCCL since 2.28; null: RCCL's has another name.
  nc::result (*all_to_all)(const void* from, void* into, std::size_t count_of_each, int type,
                           nc::comm over, nc::stream on);
  // NCCL since 2.28, and RCCL; may be null.
  nc::result (*gather)(const void* from, void* into, std::size_t count_of_each, int type, int root,
                       nc::comm over, nc::stream on);
  nc::result (*scatter)(const void* from, void* into, std::size_t count_of_each, int type, int root,
                        nc::comm over, nc::stream on);
  nc::result (*send)(const void* from, std::size_t count, int type, int to, nc::comm over,
                     nc::stream on);
  nc::result (*recv)(void* into, std::size_t count, int type, int from, nc::comm over,
                     nc::stream on);
  nc::result (*make_premultiplied_sum)(int* into, void* factor, int type, int residence,
                                       nc::comm over);
  nc::result (*free_op)(int which, nc::comm over);
};

/// NCCL for `cuda`, RCCL for `hip`: the library that the process has already loaded (such as
/// PyTorch's), else the machine's; loaded on first use and never unloaded. Null if it is missing or
/// too old: `why` then has the reason and what to do. Any thread. @pre not `host`.
const nccl* find_nccl(memory_kind of, std::string& why);

/// Makes `find_nccl` use this library (`dlopen`) and no other, for a program that has the vendor's
/// name itself. Null: there is none, for that reason. @pre before the first `find_nccl`
void set_nccl(void* opened, std::string why_none);

/// Makes `find_nccl` return `by` for both kinds; null: the machine's own again. For tests.
void replace_nccl(const nccl* by) noexcept;

}  // namespace tandem::detail
