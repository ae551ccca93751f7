// As numbers.hpp: for the sources of one instruction set each.
#pragma once

#include <type_traits>

#include "numbers.hpp"

/// Before a loop whose iterations have nothing to do with each other, though it may write to what
/// it reads.
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

/// In which integers are computed with: unsigned, so that they wrap around, and no promotion makes
/// them signed.
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
template <class T>
inline T apply(minimum, T a, T b) {
  return b < a ? b : a;
}
template <class T>
inline T apply(maximum, T a, T b) {
  return a < b ? b : a;
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

/// A factor or a divisor as the type computes with it. A whole number below zero wraps around.
template <class T>
inline wrapping<T> scale_of(double by) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(by);
  } else {
    const auto size = static_cast<std::uint64_t>(by < 0 ? -by : by);
    return static_cast<wrapping<T>>(by < 0 ? 0 - size : size);
  }
}

/// In which a quotient of two numbers, the smaller one below 2^24, comes out right when truncated.
template <class T>
using dividing = std::conditional_t<
    std::is_floating_point_v<T>, T,
    std::conditional_t<(sizeof(T) < 4), float, std::conditional_t<(sizeof(T) < 8), double, T>>>;

/// Loops over elements that the compiler computes with as they are.
template <class T>
struct plain {
  template <class Op>
  static void combine(void* into, const void* a, const void* b, std::size_t count) noexcept {
    T* const result = static_cast<T*>(into);
    const T* const x = static_cast<const T*>(a);
    const T* const y = static_cast<const T*>(b);
    TANDEM_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < count; ++i) result[i] = one_nan(apply(Op{}, x[i], y[i]));
  }
  static void multiply(void* into, const void* from, std::size_t count, double by) noexcept {
    T* const result = static_cast<T*>(into);
    const T* const x = static_cast<const T*>(from);
    const wrapping<T> factor = scale_of<T>(by);
    TANDEM_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < count; ++i) {
      result[i] = one_nan(static_cast<T>(static_cast<wrapping<T>>(x[i]) * factor));
    }
  }
  static void divide(void* into, const void* from, std::size_t count, double by) noexcept {
    T* const result = static_cast<T*>(into);
    const T* const x = static_cast<const T*>(from);
    const auto divisor = static_cast<dividing<T>>(by);
    TANDEM_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < count; ++i) {
      result[i] = one_nan(static_cast<T>(static_cast<dividing<T>>(x[i]) / divisor));
    }
  }
};

/// Loops over narrow numbers, one by one, as far as the compiler does not vectorise them.
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
    const float factor = one_nan(static_cast<float>(by));
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
      result[i] = Number::encode(Number::decode(x[i]) / divisor);
    }
  }
};

/// Minimum and maximum of narrow numbers, which are ordered as their bits are: no need to convert.
template <class Number>
struct by_bits {
  using storage = typename Number::storage;
  using whole = std::make_signed_t<storage>;
  static constexpr auto greatest = static_cast<whole>(Number::greatest);

  static whole magnitude(whole x) {
    return static_cast<whole>(x & static_cast<whole>(static_cast<storage>(-1) >> 1));
  }
  static whole order(whole x) {
    const auto negative = static_cast<whole>(x >> (8 * sizeof(whole) - 1));
    return static_cast<whole>((magnitude(x) ^ negative) - negative);
  }
  static whole all_if(bool condition) { return condition ? whole{-1} : whole{0}; }
  static bool second(minimum, whole a, whole b) { return b < a; }
  static bool second(maximum, whole a, whole b) { return a < b; }

  template <class Op>
  static void combine(void* into, const void* a, const void* b, std::size_t count) noexcept {
    whole* const result = static_cast<whole*>(into);
    const whole* const x = static_cast<const whole*>(a);
    const whole* const y = static_cast<const whole*>(b);
    TANDEM_INDEPENDENT_ITERATIONS
    for (std::size_t i = 0; i < count; ++i) {
      const whole p = x[i];
      const whole q = y[i];
      const auto take = static_cast<whole>(all_if(second(Op{}, order(p), order(q))) &
                                           all_if(magnitude(q) <= greatest));
      const auto chosen = static_cast<whole>((q & take) | (p & ~take));
      result[i] = magnitude(p) <= greatest ? chosen : static_cast<whole>(Number::nan);
    }
  }
};

}  // namespace
}  // namespace tandem::detail
