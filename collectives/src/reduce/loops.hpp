// Like numbers.hpp, compiled separately for each instruction set.
#pragma once

#include <type_traits>

#include "numbers.hpp"

/// Marks a loop whose iterations are independent, although it may write to the memory it reads.
#if defined(TANDEM_INDEPENDENT_ITERATIONS)  // by device_words.hpp
#elif defined(__clang__)
#define TANDEM_INDEPENDENT_ITERATIONS _Pragma("clang loop vectorize(assume_safety)")
#else
#define TANDEM_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

namespace tandem::detail {
namespace {

using byte = unsigned char;

struct sum {};
struct product {};
struct minimum {};
struct maximum {};
struct band {};
struct bor {};
struct bxor {};

/// The type for integer arithmetic: unsigned, so that it wraps around, and wide enough not to be
/// promoted to a signed type.
template <class T>
using wrapping =
    std::conditional_t<std::is_floating_point_v<T>, T,
                       std::conditional_t<(sizeof(T) > 4), std::uint64_t, std::uint32_t>>;

template <class T>
inline T apply(sum, T a, T b) {
  return static_cast<T>(static_cast<wrapping<T>>(a) + static_cast<wrapping<T>>(b));
}
template <class T>
inline T apply(product, T a, T b) {
  return static_cast<T>(static_cast<wrapping<T>>(a) * static_cast<wrapping<T>>(b));
}
/// For floating point those of IEEE 754-2019: NaN if either operand is, and -0 is less than +0. So
/// the result does not depend on the order of operands or combinations. Among equal numbers only
/// zeros differ in bits: the lesser zero is the bitwise or of both, the greater one the bitwise
/// and. The test for NaN is inline because GCC 12 vectorises branches if it is a function.
template <class T>
inline T apply(minimum, T a, T b) {
  const T first = b < a ? b : a;
  if constexpr (std::is_floating_point_v<T>) {
    const T second = a < b ? a : b;
    const T least = of_bits<T>(bits_of(first) | bits_of(second));
    return __builtin_isunordered(a, b) ? quiet_nan<T>() : least;
  } else {
    return first;
  }
}
template <class T>
inline T apply(maximum, T a, T b) {
  const T first = a < b ? b : a;
  if constexpr (std::is_floating_point_v<T>) {
    const T second = b < a ? a : b;
    const T greatest = of_bits<T>(bits_of(first) & bits_of(second));
    return __builtin_isunordered(a, b) ? quiet_nan<T>() : greatest;
  } else {
    return first;
  }
}
template <class T>
inline T apply(band, T a, T b) {
  return static_cast<T>(a & b);
}
template <class T>
inline T apply(bor, T a, T b) {
  return static_cast<T>(a | b);
}
template <class T>
inline T apply(bxor, T a, T b) {
  return static_cast<T>(a ^ b);
}

/// Applies `op` and replaces a NaN by the canonical one, which minimum and maximum already give.
template <class Op, class T>
inline T combined(Op op, T a, T b) {
  if constexpr (std::is_same_v<Op, minimum> || std::is_same_v<Op, maximum>) {
    return apply(op, a, b);
  } else {
    return canonical_nan(apply(op, a, b));
  }
}

/// A factor in the type used for the arithmetic. A negative integer wraps around.
template <class T>
inline wrapping<T> scale_of(double by) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(by);
  } else {
    const auto size = static_cast<std::uint64_t>(by < 0 ? -by : by);
    return static_cast<wrapping<T>>(by < 0 ? 0 - size : size);
  }
}

/// The type in which the quotient of two numbers, the smaller one below 2^24, is right once
/// truncated.
template <class T>
using dividing = std::conditional_t<
    std::is_floating_point_v<T>, T,
    std::conditional_t<(sizeof(T) < 4), float, std::conditional_t<(sizeof(T) < 8), double, T>>>;

/// x / by; `greatest` with that sign where the quotient of a finite number would be greater.
template <class T>
inline T limited_quotient(T x, T by, T greatest) {
  const T quotient = x / by;
  const T limited = quotient > greatest ? greatest : (quotient < -greatest ? -greatest : quotient);
  return x > greatest || x < -greatest ? quotient : limited;
}

/// Loops over elements of types that the language supports.
template <class T>
struct plain {
  template <class Op>
  static void combine(void* into, const void* a, const void* b, std::size_t count) noexcept {
    T* const result = static_cast<T*>(into);
    const T* const x = static_cast<const T*>(a);
    const T* const y = static_cast<const T*>(b);
    TANDEM_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < count; ++i) result[i] = combined(Op{}, x[i], y[i]);
  }
  static void multiply(void* into, const void* from, std::size_t count, double by) noexcept {
    T* const result = static_cast<T*>(into);
    const T* const x = static_cast<const T*>(from);
    const wrapping<T> factor = scale_of<T>(by);
    TANDEM_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < count; ++i) {
      result[i] = canonical_nan(static_cast<T>(static_cast<wrapping<T>>(x[i]) * factor));
    }
  }
  static void divide(void* into, const void* from, std::size_t count, double by) noexcept {
    T* const result = static_cast<T*>(into);
    const T* const x = static_cast<const T*>(from);
    const auto divisor = static_cast<dividing<T>>(by);
    TANDEM_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (std::is_floating_point_v<T>) {
        result[i] = canonical_nan(limited_quotient(x[i], divisor, max_of<T>()));
      } else {
        result[i] = static_cast<T>(static_cast<dividing<T>>(x[i]) / divisor);
      }
    }
  }
};

/// Loops over narrow numbers one by one, unless the compiler vectorises them.
template <class Number>
struct one_by_one {
  using storage = typename Number::storage;

  template <class Op>
  static void combine(void* into, const void* a, const void* b, std::size_t count) noexcept {
    storage* const result = static_cast<storage*>(into);
    const storage* const x = static_cast<const storage*>(a);
    const storage* const y = static_cast<const storage*>(b);
    TANDEM_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < count; ++i) {
      result[i] = Number::encode(apply(Op{}, Number::decode(x[i]), Number::decode(y[i])));
    }
  }
  static void multiply(void* into, const void* from, std::size_t count, double by) noexcept {
    storage* const result = static_cast<storage*>(into);
    const storage* const x = static_cast<const storage*>(from);
    const float factor = canonical_nan(static_cast<float>(by));
    TANDEM_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < count; ++i)
      result[i] = Number::encode(Number::decode(x[i]) * factor);
  }
  static void divide(void* into, const void* from, std::size_t count, double by) noexcept {
    storage* const result = static_cast<storage*>(into);
    const storage* const x = static_cast<const storage*>(from);
    const auto divisor = static_cast<float>(by);
    TANDEM_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < count; ++i) {
      result[i] = Number::encode(limited_quotient(Number::decode(x[i]), divisor, Number::max()));
    }
  }
  /// If all results are finite.
  template <std::size_t count>
  static void divide_unbounded(void* into, const void* from, double by) noexcept {
    storage* const result = static_cast<storage*>(into);
    const storage* const x = static_cast<const storage*>(from);
    const auto divisor = static_cast<float>(by);
    TANDEM_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < count; ++i) {
      result[i] = Number::encode_finite(Number::decode(x[i]) / divisor);
    }
  }
};

/// Minimum and maximum of narrow numbers, defined as above, without conversion: integer keys have
/// the order of the numbers, and NaNs have the greatest magnitudes.
template <class Number>
struct by_bits {
  using storage = typename Number::storage;
  using signed_bits = std::make_signed_t<storage>;
  static constexpr auto greatest = static_cast<signed_bits>(Number::greatest);
  static constexpr auto all_but_sign = static_cast<signed_bits>(static_cast<storage>(-1) >> 1);

  static storage magnitude(signed_bits x) { return static_cast<storage>(x & all_but_sign); }
  /// Inverts all bits but the sign of negative numbers.
  static signed_bits key(signed_bits x) {
    const auto negative = static_cast<signed_bits>(x >> (8 * sizeof(signed_bits) - 1));
    return static_cast<signed_bits>(x ^ (negative & all_but_sign));
  }
  static bool second(minimum, signed_bits a, signed_bits b) { return b < a; }
  static bool second(maximum, signed_bits a, signed_bits b) { return a < b; }

  template <class Op>
  static void combine(void* into, const void* a, const void* b, std::size_t count) noexcept {
    signed_bits* const result = static_cast<signed_bits*>(into);
    const signed_bits* const x = static_cast<const signed_bits*>(a);
    const signed_bits* const y = static_cast<const signed_bits*>(b);
    TANDEM_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < count; ++i) {
      const signed_bits p = x[i];
      const signed_bits q = y[i];
      const signed_bits chosen = second(Op{}, key(p), key(q)) ? q : p;
      // One comparison detects a NaN in either operand.
      const storage of_p = magnitude(p), of_q = magnitude(q);
      const auto longer = static_cast<signed_bits>(of_p < of_q ? of_q : of_p);
      result[i] = longer <= greatest ? chosen : static_cast<signed_bits>(Number::nan);
    }
  }
};

}  // namespace
}  // namespace tandem::detail
