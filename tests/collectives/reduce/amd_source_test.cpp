// The kernel sources through Clang for an AMD GPU, which needs neither ROCm nor a device.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "reduce/device_source.hpp"
#include "streams/stream_kernels.hpp"
#include "support/temporary_folder.hpp"

namespace tandem::detail {
namespace {

/// What hiprtc defines before a source.
constexpr const char* of_hiprtc = R"(
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(n) __attribute__((amdgpu_flat_work_group_size(1, n)))
#define INDEX(type, of_x)                               \
  struct type {                                         \
    __declspec(property(get = get_x)) unsigned x;       \
    static __device__ unsigned get_x() { return of_x; } \
  };
INDEX(thread_index, __builtin_amdgcn_workitem_id_x())
INDEX(block_index, __builtin_amdgcn_workgroup_id_x())
INDEX(block_size, __builtin_amdgcn_workgroup_size_x())
INDEX(grid_size, __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x())
static __device__ thread_index threadIdx;
static __device__ block_index blockIdx;
static __device__ block_size blockDim;
static __device__ grid_size gridDim;
__device__ inline void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
__device__ inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
)";

/// Its assembler text; empty after a failure, whose text is in `log`.
std::string compiled(const std::string& source, std::string& log) {
  const test::temporary_folder here;
  const std::string from = here.path("source.hip"), into = here.path("code.s");
  const std::string said = here.path("log");
  std::ofstream(from) << of_hiprtc << source;
  const std::string command =
      "clang++-16 -x hip -nogpulib -nogpuinc --cuda-device-only "
      "--offload-arch=gfx90a -std=c++17 -O2 -ffp-contract=off "
      "-fms-extensions -w -S '" +
      from + "' -o '" + into + "' > '" + said + "' 2>&1";
  const bool is_done = std::system(command.c_str()) == 0;
  const auto text_of = [](const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  log = text_of(said);
  return is_done ? text_of(into) : std::string();
}

TEST(DeviceSource, CompilesForAmd) {
  std::string log;
  if (compiled("", log).empty()) GTEST_SKIP() << "no Clang 16 that compiles for gfx90a: " << log;
  // One type of each family of kernels.
  for (const data_type type : {data_type::float32, data_type::int16, data_type::bfloat16}) {
    const std::string code = compiled(device_source(type), log);
    for (std::size_t i = 0; i < kernel_work_count; ++i) {
      const auto work = static_cast<kernel_work>(i);
      EXPECT_EQ(code.find(kernel_name(type, work) + ":") != code.npos, has_kernel(type, work))
          << kernel_name(type, work) << log;
      EXPECT_EQ(code.find(exchange_kernel_name(type, work) + ":") != code.npos,
                has_exchange_kernel(type, work))
          << exchange_kernel_name(type, work) << log;
    }
  }
  const std::string of_streams = compiled(std::string(device_text::stream_kernels), log);
  for (const char* const each : stream_kernels::names) {
    EXPECT_NE(of_streams.find(std::string(each) + ":"), of_streams.npos) << each << log;
  }
}

}  // namespace
}  // namespace tandem::detail
