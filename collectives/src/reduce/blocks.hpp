// Like numbers.hpp, compiled separately for each instruction set.
#pragma once

#include "loops.hpp"

namespace tandem::detail {
namespace {

template <class Format>
concept has_add = requires(byte* p) {
  Format::add(p, p, p);
};

/// Loops over narrow numbers, one block at a time in vectors of float32. A `Format` has
///   bytes      bytes of one number
///   count      numbers in a block
///   scale      a power of two: `load` divides numbers by it and `store` expects them so; only
///              products must correct for it
///   greatest   the greatest finite number, divided by the scale
///   load(p)    -> values, store(p, values), store_finite(p, values) if all can be represented
/// optionally a faster sum of two blocks
///   add(p, a, b)
/// and `apply`, `times`, `over` and `quotient` for its values. The remainder is copied to a block
/// of zeros, so that the same instructions round it.
template <class Format>
struct by_blocks {
  static constexpr std::size_t step = Format::bytes * Format::count;

  template <class Op>
  static void join(byte* into, const byte* a, const byte* b) {
    if constexpr (std::is_same_v<Op, sum> && has_add<Format>) {
      Format::add(into, a, b);
    } else {
      const auto result = apply(Op{}, Format::load(a), Format::load(b));
      if constexpr (std::is_same_v<Op, product> && Format::scale != 1) {
        Format::store(into, times(result, Format::scale));
      } else {
        Format::store(into, result);
      }
    }
  }

  template <class Op>
  static void combine(void* into, const void* a, const void* b, std::size_t count) noexcept {
    auto* result = static_cast<byte*>(into);
    auto* x = static_cast<const byte*>(a);
    auto* y = static_cast<const byte*>(b);
    for (; count >= Format::count; count -= Format::count, result += step, x += step, y += step) {
      join<Op>(result, x, y);
    }
    if (count == 0) return;
    byte rest_x[step] = {}, rest_y[step] = {};
    __builtin_memcpy(rest_x, x, count * Format::bytes);
    __builtin_memcpy(rest_y, y, count * Format::bytes);
    join<Op>(rest_x, rest_x, rest_y);
    __builtin_memcpy(result, rest_x, count * Format::bytes);
  }

  /// `scaled` is a `multiplied` or a `divided`.
  template <class Scaled>
  static void scale(void* into, const void* from, std::size_t count, Scaled scaled) noexcept {
    auto* result = static_cast<byte*>(into);
    auto* x = static_cast<const byte*>(from);
    for (; count >= Format::count; count -= Format::count, result += step, x += step) {
      Format::store(result, scaled.of(Format::load(x)));
    }
    if (count == 0) return;
    byte rest[step] = {};
    __builtin_memcpy(rest, x, count * Format::bytes);
    Format::store(rest, scaled.of(Format::load(rest)));
    __builtin_memcpy(result, rest, count * Format::bytes);
  }
  struct multiplied {
    float by;
    template <class Values>
    Values of(Values x) const {
      return times(x, by);
    }
  };
  struct divided {
    float by;
    template <class Values>
    Values of(Values x) const {
      return over(x, by, Format::greatest);
    }
  };
  static void multiply(void* into, const void* from, std::size_t count, double by) noexcept {
    scale(into, from, count, multiplied{canonical_nan(static_cast<float>(by))});
  }
  static void divide(void* into, const void* from, std::size_t count, double by) noexcept {
    scale(into, from, count, divided{static_cast<float>(by)});
  }
  /// If all results are finite.
  template <std::size_t count>
  static void divide_unbounded(void* into, const void* from, double by) noexcept {
    static_assert(count % Format::count == 0);
    auto* const result = static_cast<byte*>(into);
    auto* const x = static_cast<const byte*>(from);
    for (std::size_t at = 0; at < count * Format::bytes; at += step) {
      Format::store_finite(result + at, quotient(Format::load(x + at), static_cast<float>(by)));
    }
  }
};

}  // namespace
}  // namespace tandem::detail
