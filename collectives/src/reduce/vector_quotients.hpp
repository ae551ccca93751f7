// Like numbers.hpp, compiled separately for each instruction set; for the host only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "loops.hpp"

namespace tandem::detail {
namespace {

/// The quotients of `plain`, for the usual case that all are finite: what a quotient that is not
/// needs, a bound or the canonical NaN, is looked at once for several vectors.
/// @tparam vector_bytes  of the registers
template <class T, std::size_t vector_bytes>
struct vector_quotients {
  static void divide(void* into, const void* from, std::size_t count, double by) noexcept {
    constexpr std::size_t lanes = vector_bytes / sizeof(T);
    constexpr std::size_t step = 4 * lanes;
    const vector divisor = vector{} + static_cast<T>(by);
    T* result = static_cast<T*>(into);
    const T* x = static_cast<const T*>(from);
    for (; count >= step; count -= step, result += step, x += step) {
      vector quotients[4];
      words too_great{};  // the sign: the number is not finite
      for (std::size_t i = 0; i < 4; ++i) {
        vector dividends;
        __builtin_memcpy(&dividends, x + i * lanes, sizeof dividends);
        quotients[i] = dividends / divisor;
        too_great |= greatest - (reinterpret_cast<words>(quotients[i]) & all_but_sign);
      }
      if (!any_sign(too_great)) {
        __builtin_memcpy(result, quotients, sizeof quotients);
      } else {
        plain<T>::divide(result, x, step, by);
      }
    }
    plain<T>::divide(result, x, count, by);
  }

 private:
  using word = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  static constexpr word all_but_sign =
      static_cast<word>(static_cast<std::make_unsigned_t<word>>(-1) >> 1);
  static constexpr word greatest = __builtin_bit_cast(word, max_of<T>());
  typedef T vector __attribute__((vector_size(vector_bytes)));
  typedef word words __attribute__((vector_size(vector_bytes)));

  static bool any_sign(words of) {
    std::uint64_t parts[vector_bytes / sizeof(std::uint64_t)];
    __builtin_memcpy(parts, &of, sizeof parts);
    std::uint64_t all = 0;
    for (const std::uint64_t each : parts) all |= each;
    return (all & (sizeof(word) == 4 ? 0x80000000'80000000 : 0x80000000'00000000)) != 0;
  }
};

}  // namespace
}  // namespace tandem::detail
