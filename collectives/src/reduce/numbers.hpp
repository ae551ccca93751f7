// Included by one source for each instruction set, which compiles its own copy: everything has
// internal linkage, and no functions with external linkage of the standard library are used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__FAST_MATH__)
#error "the reductions promise bits and NaNs that -ffast-math does not keep"
#endif

namespace tandem::detail {
namespace {

/// Instead of std::bit_cast, which without optimisation is a function that the linker would share.
inline float as_float(std::int32_t bits) {
  return __builtin_bit_cast(float, bits);
}
inline std::int32_t as_bits(float x) {
  return __builtin_bit_cast(std::int32_t, x);
}

/// A sign bit, `Width` - 1 - `Mantissa` exponent bits and `Mantissa` mantissa bits. Without
/// `Infinity` the greatest exponent encodes finite numbers, except for the last mantissa, which is
/// NaN. Written without branches and with signed integers, so that every compiler can vectorise it
/// for every processor.
template <class Storage, int Width, int Mantissa, bool Infinity>
struct narrow_number {
  using storage = Storage;
  static constexpr int exponent_bits = Width - 1 - Mantissa;
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  static constexpr int shift = 23 - Mantissa;
  static constexpr std::int32_t sign_bit = 1 << (Width - 1);
  static constexpr std::int32_t infinity = ((1 << exponent_bits) - 1) << Mantissa;
  static constexpr std::int32_t nan = Infinity ? infinity + (1 << (Mantissa - 1)) : sign_bit - 1;
  static constexpr std::int32_t overflow = Infinity ? infinity : nan;
  static constexpr std::int32_t greatest = Infinity ? infinity : nan - 1;  ///< not NaN
  static constexpr std::int32_t rebias = (127 - bias) << 23;
  static constexpr std::int32_t float_infinity = 0x7f80'0000;
  static constexpr std::int32_t min_normal = rebias + (1 << 23);
  static constexpr std::int32_t first_special = (Infinity ? infinity : nan) << shift;

  /// The greatest finite number.
  static constexpr float max() {
    return __builtin_bit_cast(float, (first_special - (1 << shift)) + rebias);
  }

  static float decode(Storage stored) {
    const std::int32_t bits = stored;
    const std::int32_t magnitude = (bits & (sign_bit - 1)) << shift;
    // A subnormal number 0.m 2^e is 1.m 2^e - 2^e.
    const float subnormal = as_float(magnitude + min_normal) - as_float(min_normal);
    std::int32_t x = magnitude < (1 << 23) ? as_bits(subnormal) : magnitude + rebias;
    x = magnitude >= first_special ? magnitude | float_infinity : x;
    return as_float(x | ((bits & sign_bit) != 0 ? INT32_MIN : 0));
  }

  /// Rounds to nearest even.
  static Storage encode(float number) {
    const std::int32_t bits = as_bits(number);
    const std::int32_t magnitude = bits & INT32_MAX;
    // Limited to infinity, so that the sum fits 31 bits.
    std::int32_t x = rounded(magnitude < float_infinity ? magnitude : float_infinity);
    x = x < overflow ? x : overflow;
    x = magnitude > float_infinity ? nan : x;
    const std::int32_t sign = bits < 0 ? sign_bit : 0;
    const bool is_nan = Infinity ? magnitude > float_infinity : x == nan;
    return static_cast<Storage>(is_nan ? x : x | sign);
  }
  /// The same of a number whose magnitude is at most `max`.
  static Storage encode_finite(float number) {
    const std::int32_t bits = as_bits(number);
    return static_cast<Storage>(rounded(bits & INT32_MAX) | (bits < 0 ? sign_bit : 0));
  }

 private:
  static std::int32_t rounded(std::int32_t magnitude) {
    // Its last bit has the weight of the last bit of a subnormal result, so adding it rounds.
    constexpr std::int32_t rounder = (127 + 24 - bias - Mantissa) << 23;
    const std::int32_t half = (1 << (shift - 1)) - 1 + (magnitude >> shift & 1);
    const std::int32_t normal = ((magnitude + half) >> shift) - (rebias >> shift);
    const std::int32_t subnormal = as_bits(as_float(magnitude) + as_float(rounder)) - rounder;
    return magnitude < min_normal ? subnormal : normal;
  }
};

/// The upper half of a float32. Does not use AVX512_BF16, which flushes subnormal numbers to zero.
struct bfloat16_number {
  using storage = std::uint16_t;
  static constexpr std::int32_t nan = 0x7fc0;
  static constexpr std::int32_t greatest = 0x7f80;

  static constexpr float max() { return __builtin_bit_cast(float, 0x7f7f'0000); }

  static float decode(storage bits) {
    return as_float(static_cast<std::int32_t>(std::uint32_t{bits} << 16));
  }
  static storage encode(float number) {
    return number == number ? encode_finite(number) : static_cast<storage>(nan);
  }
  static storage encode_finite(float number) {
    const auto bits = static_cast<std::uint32_t>(as_bits(number));
    return static_cast<storage>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
};

using float16_number = narrow_number<std::uint16_t, 16, 10, true>;
using e4m3_number = narrow_number<std::uint8_t, 8, 3, false>;
using e5m2_number = narrow_number<std::uint8_t, 8, 2, true>;

/// The bits of a float or a double.
template <class T>
using float_bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
template <class T>
inline float_bits<T> bits_of(T x) {
  return __builtin_bit_cast(float_bits<T>, x);
}
template <class T>
inline T of_bits(float_bits<T> bits) {
  return __builtin_bit_cast(T, bits);
}

/// The greatest finite number.
template <class T>
constexpr T max_of() {
  if constexpr (sizeof(T) == 4)
    return __builtin_bit_cast(T, 0x7f7f'ffff);
  else
    return __builtin_bit_cast(T, 0x7fef'ffff'ffff'ffff);
}

/// The canonical NaN of results.
template <class T>
inline T quiet_nan() {
  constexpr std::int64_t bits = sizeof(T) == 4 ? 0x7fc0'0000 : 0x7ff8'0000'0000'0000;
  return of_bits<T>(static_cast<float_bits<T>>(bits));
}
inline float canonical_nan(float x) {
  return x == x ? x : quiet_nan<float>();
}
inline double canonical_nan(double x) {
  return x == x ? x : quiet_nan<double>();
}
template <class Integer>
inline Integer canonical_nan(Integer x) {
  return x;
}

}  // namespace
}  // namespace tandem::detail
