// Included only by avx512.cpp, which selects the instruction set.
//
// Both formats are a float16 with fewer bits, e4m3 scaled by 2^-8, so the processor's float16
// conversions do most of the work. To avoid double rounding, values with more bits than a float16
// are rounded to odd: truncated, with the last bit set if that lost bits. Sums need no rounding to
// odd: if a float16 cannot represent one, the smaller operand, which has at most four bits, is too
// small to bring the sum near the middle between two results.
#pragma once

#include "avx512_vectors.hpp"

namespace tandem::detail {
namespace {

inline __m128i load_16(const byte* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
inline __m256i load_32(const byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline void store_32(byte* p, __m256i x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x);
}

inline __m512i to_odd_halves(values x) {
  const __m512i halves = to_halves<_MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC>(x);
  const values kept = from_halves(halves);
  const __mmask32 lost = _mm512_kunpackw(_mm512_cmp_ps_mask(kept.high, x.high, _CMP_NEQ_OQ),
                                         _mm512_cmp_ps_mask(kept.low, x.low, _CMP_NEQ_OQ));
  return _mm512_or_si512(halves, _mm512_maskz_set1_epi16(lost, 1));
}

constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

/// Shifts out the lowest `Bits`, rounding to nearest even.
template <int Bits>
inline __m512i rounded(__m512i x) {
  const __m512i last = _mm512_and_si512(_mm512_srli_epi16(x, Bits), _mm512_set1_epi16(1));
  const __m512i half = _mm512_add_epi16(last, _mm512_set1_epi16((1 << (Bits - 1)) - 1));
  return _mm512_srli_epi16(_mm512_add_epi16(x, half), Bits);
}

/// e5m2 is a float16 without its lower byte.
struct e5m2_format {
  static constexpr std::size_t bytes = 1, count = 32;
  static constexpr float scale = 1;
  static constexpr float greatest = e5m2_number::max();

  static values load(const byte* p) { return {half(p), half(p + 16)}; }
  static void store(byte* p, values x) { narrow(p, to_odd_halves(x)); }
  static void store_finite(byte* p, values x) {
    store_32(p, _mm512_cvtepi16_epi8(rounded<8>(to_odd_halves(x))));
  }
  static void add(byte* p, const byte* a, const byte* b) {
    narrow(p, to_halves<nearest>(apply(sum{}, load(a), load(b))));
  }

 private:
  static __m512 half(const byte* p) {
    return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(load_16(p)), 8));
  }
  static void narrow(byte* p, __m512i halves) {
    const __m256i x = _mm512_cvtepi16_epi8(rounded<8>(halves));
    const __m256i magnitude = _mm256_and_si256(x, _mm256_set1_epi8(0x7f));
    const __mmask32 is_nan = _mm256_cmpgt_epi8_mask(magnitude, _mm256_set1_epi8(0x7c));
    store_32(p, _mm256_mask_mov_epi8(x, is_nan, _mm256_set1_epi8(0x7e)));
  }
};

/// Shifted left by seven bits, an e4m3 is the float16 of its value times 2^-8, except for NaN,
/// which becomes 480.
struct e4m3_format {
  static constexpr std::size_t bytes = 1, count = 32;
  static constexpr float scale = 256;
  static constexpr float greatest = e4m3_number::max() / scale;

  static values load(const byte* p) {
    const __mmask32 nans = are_nan(load_32(p));
    const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc0'0000));
    return {_mm512_mask_mov_ps(half(p), static_cast<__mmask16>(nans), nan),
            _mm512_mask_mov_ps(half(p + 16), static_cast<__mmask16>(nans >> 16), nan)};
  }
  static void store(byte* p, values x) { narrow(p, to_odd_halves(x), 0); }
  static void store_finite(byte* p, values x) {
    const __m512i halves = to_odd_halves(x);
    store_32(p, _mm256_or_si256(_mm512_cvtepi16_epi8(magnitude(halves)), sign(halves)));
  }
  static void add(byte* p, const byte* a, const byte* b) {
    const __mmask32 nans = are_nan(load_32(a)) | are_nan(load_32(b));
    const values x{half(a), half(a + 16)};
    const values y{half(b), half(b + 16)};
    narrow(p, to_halves<nearest>(apply(sum{}, x, y)), nans);
  }

 private:
  static __mmask32 are_nan(__m256i x) {
    const __m256i magnitude = _mm256_and_si256(x, _mm256_set1_epi8(0x7f));
    return _mm256_cmpeq_epi8_mask(magnitude, _mm256_set1_epi8(0x7f));
  }
  static __m512 half(const byte* p) {
    const __m256i two_signs = _mm256_slli_epi16(_mm256_cvtepi8_epi16(load_16(p)), 7);
    return _mm512_cvtph_ps(_mm256_and_si256(two_signs, _mm256_set1_epi16(~0x4000)));
  }
  static __m512i magnitude(__m512i halves) {
    return rounded<7>(_mm512_and_si512(halves, _mm512_set1_epi16(0x7fff)));
  }
  static __m256i sign(__m512i halves) {
    const __m256i upper = _mm512_cvtepi16_epi8(_mm512_srli_epi16(halves, 8));
    return _mm256_and_si256(upper, _mm256_set1_epi8(INT8_MIN));
  }
  /// Overflow and `nans` become NaN.
  static void narrow(byte* p, __m512i halves, __mmask32 nans) {
    const __m256i nan = _mm256_set1_epi8(0x7f);
    const __m256i number = _mm256_min_epu8(_mm512_cvtusepi16_epi8(magnitude(halves)), nan);
    nans |= _mm256_cmpeq_epi8_mask(number, nan);
    store_32(p, _mm256_mask_mov_epi8(_mm256_or_si256(number, sign(halves)), nans, nan));
  }
};

}  // namespace
}  // namespace tandem::detail
