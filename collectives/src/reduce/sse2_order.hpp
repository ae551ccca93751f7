// Like numbers.hpp, compiled separately for each instruction set; for that which every x86-64 has.
#pragma once

#include <emmintrin.h>

#include <algorithm>

#include "loops.hpp"

namespace tandem::detail {
namespace {

template <class T>
struct sse2;

template <>
struct sse2<float> {
  using vector = __m128;
  static vector load(const float* from) { return _mm_loadu_ps(from); }
  static void store(float* to, vector x) { _mm_storeu_ps(to, x); }
  static vector zero() { return _mm_setzero_ps(); }
  static vector min(vector a, vector b) { return _mm_min_ps(a, b); }
  static vector max(vector a, vector b) { return _mm_max_ps(a, b); }
  static vector bit_or(vector a, vector b) { return _mm_or_ps(a, b); }
  static vector bit_and(vector a, vector b) { return _mm_and_ps(a, b); }
  static vector unordered(vector a, vector b) { return _mm_cmpunord_ps(a, b); }
  static vector add(vector a, vector b) { return _mm_add_ps(a, b); }
  static bool has_nan(vector x) { return _mm_movemask_ps(_mm_cmpunord_ps(x, x)) != 0; }
};

template <>
struct sse2<double> {
  using vector = __m128d;
  static vector load(const double* from) { return _mm_loadu_pd(from); }
  static void store(double* to, vector x) { _mm_storeu_pd(to, x); }
  static vector zero() { return _mm_setzero_pd(); }
  static vector min(vector a, vector b) { return _mm_min_pd(a, b); }
  static vector max(vector a, vector b) { return _mm_max_pd(a, b); }
  static vector bit_or(vector a, vector b) { return _mm_or_pd(a, b); }
  static vector bit_and(vector a, vector b) { return _mm_and_pd(a, b); }
  static vector unordered(vector a, vector b) { return _mm_cmpunord_pd(a, b); }
  static vector add(vector a, vector b) { return _mm_add_pd(a, b); }
  static bool has_nan(vector x) { return _mm_movemask_pd(_mm_cmpunord_pd(x, x)) != 0; }
};

/// Minimum and maximum as `apply` defines them. Without a blend instruction, choosing the canonical
/// NaN takes three operations for each vector, so a block is first computed with whatever NaN comes
/// out, and the NaNs of a block that may have any are replaced while it is in the first level
/// cache.
template <class T>
struct sse2_order {
  using v = sse2<T>;
  using vector = typename v::vector;
  static constexpr std::size_t lanes = sizeof(vector) / sizeof(T);
  static constexpr std::size_t block = 4096 / sizeof(T);
  static constexpr std::size_t vectors = 4;  ///< independent sums, for the latency of an addition

  /// A NaN if either operand is: the instructions return their second operand then.
  static vector chosen(minimum, vector a, vector b) {
    return v::bit_or(v::min(a, b), v::min(b, a));
  }
  static vector chosen(maximum, vector a, vector b) {
    return v::bit_or(v::bit_and(v::max(a, b), v::max(b, a)), v::unordered(a, b));
  }

  /// Returns how many elements it has combined; the others are fewer than a step.
  template <class Op>
  static std::size_t combine_block(T* result, const T* x, const T* y, std::size_t count) {
    vector sums[vectors] = {v::zero(), v::zero(), v::zero(), v::zero()};
    std::size_t i = 0;
    for (; i + vectors * lanes <= count; i += vectors * lanes) {
      for (std::size_t k = 0; k < vectors; ++k) {
        const std::size_t at = i + k * lanes;
        const vector both = chosen(Op{}, v::load(x + at), v::load(y + at));
        // A NaN stays in the sum. So does that of infinities of both signs, which costs a pass.
        sums[k] = v::add(sums[k], both);
        v::store(result + at, both);
      }
    }
    const vector sum = v::add(v::add(sums[0], sums[1]), v::add(sums[2], sums[3]));
    if (v::has_nan(sum)) {
      for (std::size_t k = 0; k < i; ++k) result[k] = canonical_nan(result[k]);
    }
    return i;
  }

  template <class Op>
  static void combine(void* into, const void* a, const void* b, std::size_t count) noexcept {
    T* const result = static_cast<T*>(into);
    const T* const x = static_cast<const T*>(a);
    const T* const y = static_cast<const T*>(b);
    std::size_t done = 0;
    while (count - done >= vectors * lanes) {
      done += combine_block<Op>(result + done, x + done, y + done, std::min(block, count - done));
    }
    plain<T>::template combine<Op>(result + done, x + done, y + done, count - done);
  }
};

}  // namespace
}  // namespace tandem::detail
