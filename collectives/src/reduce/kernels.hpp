#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tandem/reduction.hpp>

/// The loops over elements, once for each instruction set. All give the same bits.
namespace tandem::detail {

constexpr std::size_t data_type_count = 14;
constexpr std::size_t reduce_op_count = 9;

/// into[i] = a[i] op b[i]. Each of `a` and `b` is identical with `into` or does not overlap it. All
/// are aligned to their elements, here and below.
using combine_kernel = void (*)(void* into, const void* a, const void* b,
                                std::size_t count) noexcept;
/// into[i] = from[i] times, or divided by, `by`; `from` is `into` or does not overlap it.
using scale_kernel = void (*)(void* into, const void* from, std::size_t count, double by) noexcept;

struct kernel_table {
  /// Indexed by type and operation; null if the combination is undefined. Average and
  /// premultiplied_sum combine like the sum.
  combine_kernel combine[data_type_count][reduce_op_count];
  scale_kernel multiply[data_type_count];
  /// The quotient of a finite number is finite: at most the greatest of the type.
  /// @pre for integer types: `by` is an integer from 1 to 2^24.
  scale_kernel divide[data_type_count];
};

enum class instruction_set : std::uint8_t {
  portable,  ///< the compiler's target for the build
  avx2,      ///< AVX2 and F16C
  avx512,    ///< AVX-512 F, BW, DQ and VL
};
constexpr instruction_set instruction_sets[] = {instruction_set::portable, instruction_set::avx2,
                                                instruction_set::avx512};
std::string_view name(instruction_set which) noexcept;

/// Null if this processor or the build's architecture does not have the instructions.
const kernel_table* kernels_for(instruction_set which) noexcept;
/// The table for the widest instruction set of this processor; selected once.
const kernel_table& kernels() noexcept;

extern const kernel_table portable_kernels;
#if defined(__x86_64__)
extern const kernel_table avx2_kernels;
/// Without integers of up to 32 bits; `kernels_for` adds AVX2's.
extern const kernel_table avx512_kernels;
#endif

}  // namespace tandem::detail
