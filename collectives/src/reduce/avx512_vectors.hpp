// Included only by avx512.cpp, which selects the instruction set.
#pragma once

#include <immintrin.h>

#include "loops.hpp"

namespace tandem::detail {
namespace {

/// A block of 32 numbers as float32.
struct values {
  __m512 low, high;
};

inline values apply(sum, values a, values b) {
  return {_mm512_add_ps(a.low, b.low), _mm512_add_ps(a.high, b.high)};
}
inline values apply(product, values a, values b) {
  return {_mm512_mul_ps(a.low, b.low), _mm512_mul_ps(a.high, b.high)};
}
inline values times(values x, float by) {
  const __m512 all = _mm512_set1_ps(by);
  return {_mm512_mul_ps(x.low, all), _mm512_mul_ps(x.high, all)};
}
/// `quotient`, limited as by `limited_quotient`. Of a NaN and another operand, the instructions
/// return the second.
inline __m512 limited(__m512 quotient, __m512 x, __m512 greatest) {
  const __m512 bounded = _mm512_max_ps(_mm512_sub_ps(_mm512_setzero_ps(), greatest),
                                       _mm512_min_ps(greatest, quotient));
  const __mmask16 is_infinite = _mm512_cmp_ps_mask(_mm512_abs_ps(x), greatest, _CMP_GT_OQ);
  return _mm512_mask_mov_ps(bounded, is_infinite, quotient);
}
inline values quotient(values x, float by) {
  const __m512 divisor = _mm512_set1_ps(by);
  return {_mm512_div_ps(x.low, divisor), _mm512_div_ps(x.high, divisor)};
}
/// `limited_quotient`
inline values over(values x, float by, float greatest) {
  const __m512 limit = _mm512_set1_ps(greatest);
  const values quotients = quotient(x, by);
  return {limited(quotients.low, x.low, limit), limited(quotients.high, x.high, limit)};
}

inline __m512i both(__m256i low, __m256i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
inline __m512 canonical_nan(__m512 x) {
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc0'0000));
  return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), nan);
}
inline values from_halves(__m512i x) {
  return {_mm512_cvtph_ps(_mm512_castsi512_si256(x)),
          _mm512_cvtph_ps(_mm512_extracti64x4_epi64(x, 1))};
}
template <int Rounding>
inline __m512i to_halves(values x) {
  return both(_mm512_cvtps_ph(x.low, Rounding), _mm512_cvtps_ph(x.high, Rounding));
}

}  // namespace
}  // namespace tandem::detail
