#include <algorithm>

#include "kernels.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tandem::detail {
namespace {

#if defined(__x86_64__)
bool has_f16c() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
// These also check that the operating system saves the wide registers.
bool has_avx2() noexcept {
  return __builtin_cpu_supports("avx2") && has_f16c();
}
bool has_avx512() noexcept {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

/// The loops of AVX-512, and those of AVX2 over integers of up to 32 bits: there the wider vectors
/// gain nothing (bench/results/weigh-2026-11-25T2323Z.txt, medians of a type: 0.99 to 1.00), but
/// for divisions, which AVX2 takes 4 to 20 % longer for on an AMD EPYC.
kernel_table merge_avx512_with_avx2() noexcept {
  kernel_table merged = avx512_kernels;
  for (std::size_t type = 0; type < data_type_count; ++type) {
    if (merged.multiply[type] != nullptr) continue;
    std::copy_n(avx2_kernels.combine[type], reduce_op_count, merged.combine[type]);
    merged.multiply[type] = avx2_kernels.multiply[type];
  }
  // 7.8 us for 256 KiB of float32 on an AMD EPYC; compiled for AVX-512, the same loop takes 14.7.
  for (const data_type type : {data_type::float32, data_type::float64}) {
    const auto row = static_cast<std::size_t>(type);
    merged.divide[row] = avx2_kernels.divide[row];
  }
  return merged;
}
#endif

const kernel_table& choose() noexcept {
  for (const instruction_set which : {instruction_set::avx512, instruction_set::avx2}) {
    if (const kernel_table* const table = kernels_for(which)) return *table;
  }
  return portable_kernels;
}

}  // namespace

std::string_view name(instruction_set which) noexcept {
  switch (which) {
    case instruction_set::portable:
      return "portable";
    case instruction_set::avx2:
      return "avx2";
    case instruction_set::avx512:
      return "avx512";
  }
  return "unknown instruction set";
}

const kernel_table* kernels_for(instruction_set which) noexcept {
#if defined(__x86_64__)
  if (which == instruction_set::avx2) return has_avx2() ? &avx2_kernels : nullptr;
  static const kernel_table widest = merge_avx512_with_avx2();
  if (which == instruction_set::avx512) return has_avx512() && has_avx2() ? &widest : nullptr;
#endif
  return which == instruction_set::portable ? &portable_kernels : nullptr;
}

const kernel_table& kernels() noexcept {
  static const kernel_table& chosen = choose();
  return chosen;
}

}  // namespace tandem::detail
