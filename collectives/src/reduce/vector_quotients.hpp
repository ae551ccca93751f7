// Like numbers.hpp, compiled separately for each instruction set; for the host only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "loops.hpp"

namespace tandem::detail {
namespace {

/// What vector_quotients needs of float or double.
template <class T, class Vectors>
struct plain_quotients : plain<T> {
  /// If all results are finite. With vectors of its own, because GCC 12 unrolls so short a loop
  /// instead of vectorising it.
  template <std::size_t count>
  static void divide_unbounded(void* into, const void* from, double by) noexcept {
    typedef T vector __attribute__((vector_size(Vectors::vector_bytes)));
    const vector divisor = vector{} + static_cast<T>(by);
    for (std::size_t at = 0; at < count * sizeof(T); at += sizeof(vector)) {
      vector x;
      __builtin_memcpy(&x, static_cast<const byte*>(from) + at, sizeof x);
      x /= divisor;
      __builtin_memcpy(static_cast<byte*>(into) + at, &x, sizeof x);
    }
  }
};
template <class T>
struct plain_number {
  using storage = std::make_unsigned_t<float_bits<T>>;
  static constexpr T max() { return max_of<T>(); }
  static storage encode(T x) { return static_cast<storage>(bits_of(x)); }
};

/// Whether an element of `words` is negative, for a processor that has no instruction for it.
template <class Word, class Words>
inline bool any_negative(const Words& words) {
  constexpr int width = 8 * sizeof(Word);
  constexpr std::uint64_t lowest_bits = ~std::uint64_t{0} >> (64 - width);
  std::uint64_t parts[sizeof words / sizeof(std::uint64_t)];
  __builtin_memcpy(parts, &words, sizeof parts);
  std::uint64_t all = 0;
  for (const std::uint64_t each : parts) all |= each;
  return (all & (~std::uint64_t{0} / lowest_bits) << (width - 1)) != 0;
}

/// The division of `Loops`, for the usual case that all quotients are finite: several vectors of
/// dividends are compared at once with the greatest one whose quotient certainly is, and divided
/// without a bound for each.
/// @tparam Number      what the elements are
/// @tparam Vectors     `vector_bytes`, of the registers, and `any_negative`
template <class Loops, class Number, class Vectors>
struct vector_quotients {
  static void divide(void* into, const void* from, std::size_t count, double by) noexcept {
    const word limit = greatest_dividend(by);
    auto* result = static_cast<byte*>(into);
    auto* x = static_cast<const byte*>(from);
    for (; count >= step; count -= step, result += step_bytes, x += step_bytes) {
      if (are_within(x, limit)) {
        Loops::template divide_unbounded<step>(result, x, by);
      } else {
        Loops::divide(result, x, step, by);
      }
    }
    Loops::divide(result, x, count, by);
  }

 private:
  using word = std::make_signed_t<typename Number::storage>;
  typedef word words __attribute__((vector_size(Vectors::vector_bytes)));
  static constexpr std::size_t vectors = sizeof(word) == 1 ? 8 : 4;
  static constexpr std::size_t step_bytes = vectors * Vectors::vector_bytes;
  static constexpr std::size_t step = step_bytes / sizeof(word);

  /// The magnitude's bits; -1, less than any, if `by` is no positive number.
  static word greatest_dividend(double by) {
    using number = decltype(Number::max());
    const auto divisor = static_cast<number>(by);
    if (!(divisor > 0)) return -1;
    if (divisor >= 1) return static_cast<word>(Number::encode(Number::max()));
    return static_cast<word>(Number::encode(Number::max() * divisor) - 1);
  }
  static bool are_within(const byte* x, word limit) {
    constexpr word all_but_sign =
        static_cast<word>(static_cast<std::make_unsigned_t<word>>(-1) >> 1);
    words differences{};
    for (std::size_t i = 0; i < vectors; ++i) {
      words each;
      __builtin_memcpy(&each, x + i * sizeof each, sizeof each);
      differences |= limit - (each & all_but_sign);
    }
    return !Vectors::template any_negative<word>(differences);
  }
};

}  // namespace
}  // namespace tandem::detail
