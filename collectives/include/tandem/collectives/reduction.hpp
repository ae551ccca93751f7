#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

/// What collectives compute with: types of elements, and operations that combine them.
namespace tandem {

/// The type of one element, in the processor's byte order. float16 is IEEE 754's binary16, bfloat16
/// the upper half of a float32. The float8 types are those of the OCP 8-bit Floating Point
/// Specification 1.0: e4m3 has no infinity and a single NaN (0x7f, 0xff), e5m2 is the upper half of
/// a float16.
enum class data_type : std::uint8_t {
  float32,
  float64,
  int32,
  int64,
  int8,
  int16,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  bfloat16,
  float8_e4m3,
  float8_e5m2,
};

/// How two elements become one. `band`, `bor` and `bxor` combine the bits of integers. `average` is
/// the sum, divided once by the number of ranks; `premultiplied_sum` the sum of what each rank
/// brings times its own `reduction::factor`.
///
/// Results, the same bits on every processor in its default floating-point mode (round to nearest
/// even, subnormal numbers kept):
/// - Integers wrap around, in sums that are to be averaged, too; an average is truncated toward
///   zero.
/// - float16, bfloat16 and float8: every single step (a combination of two elements, a
///   multiplication, a division) converts to float32, which is exact, computes there, and rounds
///   once to nearest even. What is too large becomes infinity, for e4m3 NaN: an overflow never
///   passes as a number (NCCL puts the largest number there). Averages overflow where their sums
///   do; a premultiplied_sum by 1 / n does not.
/// - minimum and maximum of floating point are those of IEEE 754-2019: NaN where any operand is
/// NaN,
///   whichever rank brings it, and -0 is less than +0. Their results do not depend on the order of
///   combination: all algorithms, with whichever root, give the same bits.
/// - A NaN that comes out of any step is the positive quiet one without payload: float32
/// 0x7fc00000,
///   float64 0x7ff8000000000000, float16 0x7e00, bfloat16 0x7fc0, e5m2 0x7e, e4m3 0x7f, whatever
///   sign and payload the operands have. Each element of two or more ranks goes through a step, so
///   that all of them get these bits. A rank alone combines nothing: its elements stay as they are,
///   but for what premultiplied_sum multiplies.
///
/// Sums and products that a vendor's library computes (`islands`) are NaN where these are; which
/// NaN is the library's affair where all ranks are one island, and the same on all ranks.
enum class reduce_op : std::uint8_t {
  sum,
  product,
  minimum,
  maximum,
  average,
  band,
  bor,
  bxor,
  premultiplied_sum,
};

/// Of one element; 0 for a value outside the enumeration.
std::size_t bytes_of(data_type type) noexcept;
std::string_view name(data_type type) noexcept;
std::string_view name(reduce_op op) noexcept;
/// True unless a value lies outside its enumeration, or the operation combines bits and the type is
/// no integer.
bool is_defined(data_type type, reduce_op op) noexcept;

/// An operation with what it needs. Any `reduce_op` is one.
struct reduction {
  constexpr reduction(reduce_op what, double by = 1) noexcept  // NOLINT: see above
      : op(what), factor(by) {}

  reduce_op op;
  /// Of premultiplied_sum only: by what this rank's elements are multiplied; each rank may have its
  /// own. Rounded to float32 where the type is no float64. For integers a whole number that the
  /// type holds.
  double factor;
};

/// Short for the operation with its factor.
constexpr reduction premultiplied_sum(double factor) noexcept {
  return {reduce_op::premultiplied_sum, factor};
}

}  // namespace tandem
