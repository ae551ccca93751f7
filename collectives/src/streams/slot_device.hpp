// What the kernels of slot_kernel.hpp and staged_kernel.hpp need of a device: a part of the kernel
// source that is compiled at run time. (PTX ISA, memory consistency model; HIP, memory fences.)
#pragma once

#define TANDEM_SLOT_ENTRY extern "C" __global__ __launch_bounds__(tandem::detail::slot_threads)
#define TANDEM_SLOT_SHARED __shared__
#if !defined(TANDEM_PAIRED_EXCHANGES)
#define TANDEM_EXCHANGE_ENTRY TANDEM_SLOT_ENTRY
#else
#define TANDEM_EXCHANGE_ENTRY \
  extern "C" __global__ __launch_bounds__(tandem::detail::max_paired_threads)
#endif
// HIP, and CUDA before 11.7
#if defined(__clang__) || __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1107
#define TANDEM_SLOT_ARGUMENT const
#else
#define TANDEM_SLOT_ARGUMENT const __grid_constant__
#endif

namespace tandem::detail {
namespace {

#if defined(__clang__)

/// All threads of the block: it has one barrier.
inline void meet(unsigned, unsigned) {
  __syncthreads();
}

/// As below, by the builtins of Clang, whose scope is the system.
inline std::uint32_t load_word(const std::uint32_t* at) {
  return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}
inline void publish() {
  __threadfence_system();
}
inline void put_word(std::uint32_t* at, std::uint32_t value) {
  __atomic_store_n(at, value, __ATOMIC_RELAXED);
}
inline void rest() {
  __builtin_amdgcn_s_sleep(1);
}

#else

/// Behind this, so many threads of the block have reached that barrier.
inline void meet(unsigned barrier, unsigned threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
/// What others have written before `publish` is seen behind it, also what other GPUs have.
inline std::uint32_t load_word(const std::uint32_t* at) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
/// What this thread has written, and behind `meet` the others of its block, comes before all that
/// it puts into words from now on.
inline void publish() {
  asm volatile("fence.acq_rel.sys;" ::: "memory");
}
inline void put_word(std::uint32_t* at, std::uint32_t value) {
  asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
inline void rest() {
#if __CUDA_ARCH__ >= 700
  __nanosleep(20);
#endif
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

#endif

inline void store_word(std::uint32_t* at, std::uint32_t value) {
  publish();
  put_word(at, value);
}

#if defined(__clang__)
struct alignas(16) copy_unit {
  std::uint32_t words[4];
};
/// Past the caches, which do not see what the processor writes.
inline copy_unit load_unit(const copy_unit* at) {
  copy_unit value;
  for (unsigned i = 0; i < 4; ++i) {
    value.words[i] = __builtin_nontemporal_load(&at->words[i]);
  }
  return value;
}
#else
using copy_unit = uint4;
#endif
#if !defined(__clang__)
// What is read or written once, so that slots stay in the cache of the device.

inline copy_unit load_once(const copy_unit* at) {
  return __ldcs(at);
}
inline void store_once(copy_unit* at, const copy_unit& value) {
  __stcs(at, value);
}
#endif
template <class Unit>
inline Unit load_once(const Unit* at) {
  return *at;
}
template <class Unit>
inline void store_once(Unit* at, const Unit& value) {
  *at = value;
}
template <class Unit>
inline Unit load_unit(const Unit* at) {
  return *static_cast<const volatile Unit*>(at);
}

}  // namespace
}  // namespace tandem::detail
