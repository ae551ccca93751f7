/// Element types of collectives, and the operations that combine elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#pragma GCC visibility push(default)

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

/// The operation that combines two elements. `band`, `bor` and `bxor` combine the bits of integers.
/// `average` is the sum, divided once by the number of ranks n; of floating point each rank's data
/// is first multiplied by 1 / 2^k, where 2^k is the first power of two from 2 n on (2 for two
/// ranks), and the sum divided by n / 2^k. `premultiplied_sum` is the sum of each rank's data times
/// its own `reduction::factor`.
///
/// Results have the same bits on every processor in its default floating-point mode (round to
/// nearest even, subnormal numbers kept):
/// - Integers wrap around, also in the sum of an average; an average is truncated toward zero.
/// - float16, bfloat16 and float8: every single step (a combination of two elements, a
///   multiplication, a division) converts to float32, which is exact, computes there, and rounds
///   once to nearest even. Overflow gives infinity, for e4m3 NaN, never a finite number (NCCL gives
///   the largest number there).
/// - An average of finite floating-point numbers is finite, and loses nothing to the power of two
///   except in numbers below 2^k times the least normal one (6e-5 in float16, 0.016 in e4m3).
/// - minimum and maximum of floating point are those of IEEE 754-2019: NaN if any operand of any
///   rank is NaN, and -0 is less than +0. Their results do not depend on the order of combination:
///   all algorithms and roots give the same bits.
/// - A NaN result of any step is the positive quiet NaN without payload: float32 0x7fc00000,
///   float64 0x7ff8000000000000, float16 0x7e00, bfloat16 0x7fc0, e5m2 0x7e, e4m3 0x7f, whatever
///   sign and payload the operands have. In a group of two or more ranks each element goes through
///   a step, so all NaNs have these bits. A group of one combines nothing: its elements are
///   unchanged, except for the multiplication of premultiplied_sum.
///
/// Sums and products that a vendor's library computes (`make_island_communicator`) are NaN in the
/// same cases; if all ranks are one island, the library determines the bits of the NaN, the same on
/// all ranks. In a `library_queue` it also computes averages: NCCL and RCCL multiply by 1 / n
/// rounded to the type, so that numbers within a 250th of the type's greatest may give infinity.
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

/// The size of one element; 0 for a value outside the enumeration.
constexpr std::size_t bytes_of(data_type type) noexcept {
  switch (type) {
    case data_type::float64:
    case data_type::int64:
    case data_type::uint64:
      return 8;
    case data_type::float32:
    case data_type::int32:
    case data_type::uint32:
      return 4;
    case data_type::int16:
    case data_type::uint16:
    case data_type::float16:
    case data_type::bfloat16:
      return 2;
    case data_type::int8:
    case data_type::uint8:
    case data_type::float8_e4m3:
    case data_type::float8_e5m2:
      return 1;
  }
  return 0;
}
/// "float32".
std::string_view name(data_type type) noexcept;
/// "sum".
std::string_view name(reduce_op op) noexcept;
/// False for a value outside its enumeration, and for a bitwise operation on a type that is not an
/// integer.
bool is_defined(data_type type, reduce_op op) noexcept;

/// An operation with its parameter. Converts implicitly from any `reduce_op`.
struct reduction {
  constexpr reduction(reduce_op what, double by = 1) noexcept  // NOLINT: see above
      : op(what), factor(by) {}

  reduce_op op;
  /// For premultiplied_sum only: the factor of this rank's elements, which may differ by rank.
  /// Rounded to float32 unless the type is float64. For integer types an integer in the type's
  /// range.
  double factor;
};

/// Shorthand for the operation with its factor.
constexpr reduction premultiplied_sum(double factor) noexcept {
  return {reduce_op::premultiplied_sum, factor};
}

}  // namespace tandem

#pragma GCC visibility pop
