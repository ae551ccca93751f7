// Included only by avx2.cpp, which selects the instruction set.
#pragma once

#include <immintrin.h>

#include "loops.hpp"

namespace tandem::detail {
namespace {

/// A block of 16 numbers as float32.
struct values {
  __m256 low, high;
};

inline values apply(sum, values a, values b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline values apply(product, values a, values b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline values times(values x, float by) {
  const __m256 all = _mm256_set1_ps(by);
  return {_mm256_mul_ps(x.low, all), _mm256_mul_ps(x.high, all)};
}
/// `quotient`, limited as by `limited_quotient`. Of a NaN and another operand, the instructions
/// return the second.
inline __m256 limited(__m256 quotient, __m256 x, __m256 greatest) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  const __m256 bounded =
      _mm256_max_ps(_mm256_xor_ps(greatest, sign), _mm256_min_ps(greatest, quotient));
  const __m256 is_infinite = _mm256_cmp_ps(_mm256_andnot_ps(sign, x), greatest, _CMP_GT_OQ);
  return _mm256_blendv_ps(bounded, quotient, is_infinite);
}
inline values quotient(values x, float by) {
  const __m256 divisor = _mm256_set1_ps(by);
  return {_mm256_div_ps(x.low, divisor), _mm256_div_ps(x.high, divisor)};
}
/// `limited_quotient`
inline values over(values x, float by, float greatest) {
  const __m256 limit = _mm256_set1_ps(greatest);
  const values quotients = quotient(x, by);
  return {limited(quotients.low, x.low, limit), limited(quotients.high, x.high, limit)};
}

inline __m256i both(__m128i low, __m128i high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}
/// Restores the order after packing, which works on each 128-bit half separately.
inline __m256i in_order(__m256i packed) {
  return _mm256_permute4x64_epi64(packed, 0xd8);
}
inline __m256 canonical_nan(__m256 x) {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc0'0000));
  return _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
inline values from_halves(__m256i x) {
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(x)),
          _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1))};
}
template <int Rounding>
inline __m256i to_halves(values x) {
  return both(_mm256_cvtps_ph(x.low, Rounding), _mm256_cvtps_ph(x.high, Rounding));
}

}  // namespace
}  // namespace tandem::detail
