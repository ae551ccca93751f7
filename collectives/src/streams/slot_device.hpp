// What the kernel of slot_kernel.hpp needs of a device of NVIDIA: a part of the kernel source that
// is compiled at run time. (PTX ISA, memory consistency model.)
#pragma once

#define TANDEM_SLOT_ENTRY extern "C" __global__ __launch_bounds__(tandem::detail::slot_threads)
#define TANDEM_SLOT_ARGUMENT const __grid_constant__
#define TANDEM_SLOT_SHARED __shared__

namespace tandem::detail {
namespace {

/// What others have written before `store_word` is seen behind it, also what other GPUs have.
inline std::uint32_t load_word(const std::uint32_t* at) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
/// Behind `meet` also for what the other threads of the block have written.
inline void store_word(std::uint32_t* at, std::uint32_t value) {
  asm volatile("fence.acq_rel.sys;" ::: "memory");
  asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

inline void meet() {
  __syncthreads();
}
inline void rest() {
  __nanosleep(20);
}

/// Past the first cache, which does not see what another GPU writes.
inline uint4 load_unit(const uint4* at) {
  uint4 value;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(at)
               : "memory");
  return value;
}
template <class Unit>
inline Unit load_unit(const Unit* at) {
  return *static_cast<const volatile Unit*>(at);
}
using copy_unit = uint4;

}  // namespace
}  // namespace tandem::detail
