/// Types and values of nccl.h as programs compiled with it see them, from NCCL 2.7 to 2.30. RCCL
/// has the same. tests/nccl compares them with NVIDIA's header.
#pragma once

#include <climits>
#include <cstddef>

namespace tandem::nccl_abi {

struct comm_handle;

/// ncclComm_t, ncclWindow_t, cudaStream_t or hipStream_t.
using comm = comm_handle*;
using window = struct window_of*;
using stream = void*;

struct unique_id {
  char internal[128];
};

/// ncclResult_t. Newer values are never returned: an older program does not know them.
enum result : int {
  success = 0,
  unhandled_device_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

/// ncclRedOp_t; the values from `built_in_ops` on are premultiplied sums that were made.
enum redop : int { sum = 0, product = 1, maximum = 2, minimum = 3, average = 4 };
inline constexpr int built_in_ops = 5;

/// ncclDataType_t
enum type : int {
  int8 = 0,
  uint8 = 1,
  int32 = 2,
  uint32 = 3,
  int64 = 4,
  uint64 = 5,
  float16 = 6,
  float32 = 7,
  float64 = 8,
  bfloat16 = 9,
  float8_e4m3 = 10,
  float8_e5m2 = 11,
};
inline constexpr int type_count = 12;

/// ncclScalarResidence_t
enum residence : int { on_device = 0, on_host = 1 };

/// The members of ncclConfig_t that are read, each only where `size` covers it.
struct config {
  std::size_t size;
  unsigned magic;
  unsigned version;
  int blocking;
  int cluster_size;
  int min_blocks;
  int max_blocks;
  const char* net_name;
  int split_share;
  int traffic_class;
  const char* comm_name;
};
inline constexpr unsigned config_magic = 0xcafebeef;
inline constexpr int undefined = INT_MIN;

inline constexpr int no_color = -1;
inline constexpr int shrink_abort = 1;
/// What `ncclGetVersion` returns where no library of the vendor is found: 2.28.9.
inline constexpr int version = 22809;

}  // namespace tandem::nccl_abi

/// Begins the definition of an exported function, and of its twin for profilers: ncclSend and
/// pncclSend. A function that a program may replace itself (PMPI's convention).
#define TANDEM_NCCL_FUNCTION(type, name, parameters)                                       \
  extern "C" __attribute__((visibility("default"))) type name parameters;                  \
  extern "C" __attribute__((visibility("default"), alias(#name))) type p##name parameters; \
  type name parameters

/// Another name of an exported function, with its twin.
#define TANDEM_NCCL_ALIAS(name, of)                                                \
  extern "C" __attribute__((visibility("default"), alias(#of))) decltype(of) name; \
  extern "C" __attribute__((visibility("default"), alias(#of))) decltype(of) p##name
