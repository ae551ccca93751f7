// Included only by avx2.cpp, which selects the instruction set.
//
// Both formats are a float16 with fewer bits, e4m3 scaled by 2^-8, so the processor's float16
// conversions do most of the work. To avoid double rounding, values with more bits than a float16
// are rounded to odd: truncated, with the last bit set if that lost bits. Sums need no rounding to
// odd: if a float16 cannot represent one, the smaller operand, which has at most four bits, is too
// small to bring the sum near the middle between two results.
#pragma once

#include "avx2_vectors.hpp"

namespace tandem::detail {
namespace {

inline __m128i load_8(const byte* p) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
}
inline __m128i load_16(const byte* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
inline void store_16(byte* p, __m128i x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), x);
}
/// The lower bytes of 16-bit numbers below 256.
inline __m128i lower_bytes(__m256i x) {
  return _mm_packus_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}

inline __m256i to_odd_halves(values x) {
  const __m256i halves = to_halves<_MM_FROUND_TO_ZERO>(x);
  const values kept = from_halves(halves);
  const __m256i lost = in_order(
      _mm256_packs_epi32(_mm256_castps_si256(_mm256_cmp_ps(kept.low, x.low, _CMP_NEQ_OQ)),
                         _mm256_castps_si256(_mm256_cmp_ps(kept.high, x.high, _CMP_NEQ_OQ))));
  return _mm256_or_si256(halves, _mm256_and_si256(lost, _mm256_set1_epi16(1)));
}

constexpr int nearest = _MM_FROUND_TO_NEAREST_INT;

/// Shifts out the lowest `Bits`, rounding to nearest even.
template <int Bits>
inline __m256i rounded(__m256i x) {
  const __m256i last = _mm256_and_si256(_mm256_srli_epi16(x, Bits), _mm256_set1_epi16(1));
  const __m256i half = _mm256_add_epi16(last, _mm256_set1_epi16((1 << (Bits - 1)) - 1));
  return _mm256_srli_epi16(_mm256_add_epi16(x, half), Bits);
}

/// e5m2 is a float16 without its lower byte.
struct e5m2_format {
  static constexpr std::size_t bytes = 1, count = 16;
  static constexpr float scale = 1;
  static constexpr float greatest = e5m2_number::max();

  static values load(const byte* p) { return {half(p), half(p + 8)}; }
  static void store(byte* p, values x) { narrow(p, to_odd_halves(x)); }
  static void store_finite(byte* p, values x) {
    store_16(p, lower_bytes(rounded<8>(to_odd_halves(x))));
  }
  static void add(byte* p, const byte* a, const byte* b) {
    narrow(p, to_halves<nearest>(apply(sum{}, load(a), load(b))));
  }

 private:
  static __m256 half(const byte* p) {
    return _mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(load_8(p)), 8));
  }
  static void narrow(byte* p, __m256i halves) {
    const __m128i x = lower_bytes(rounded<8>(halves));
    const __m128i magnitude = _mm_and_si128(x, _mm_set1_epi8(0x7f));
    const __m128i is_nan = _mm_cmpgt_epi8(magnitude, _mm_set1_epi8(0x7c));
    store_16(p, _mm_blendv_epi8(x, _mm_set1_epi8(0x7e), is_nan));
  }
};

/// Shifted left by seven bits, an e4m3 is the float16 of its value times 2^-8, except for NaN,
/// which becomes 480.
struct e4m3_format {
  static constexpr std::size_t bytes = 1, count = 16;
  static constexpr float scale = 256;
  static constexpr float greatest = e4m3_number::max() / scale;

  static values load(const byte* p) {
    const __m128i nans = are_nan(load_16(p));
    return {with_nans(half(p), nans), with_nans(half(p + 8), _mm_srli_si128(nans, 8))};
  }
  static void store(byte* p, values x) { narrow(p, to_odd_halves(x), _mm_setzero_si128()); }
  static void store_finite(byte* p, values x) {
    const __m256i halves = to_odd_halves(x);
    store_16(p, _mm_or_si128(lower_bytes(magnitude(halves)), sign(halves)));
  }
  static void add(byte* p, const byte* a, const byte* b) {
    const __m128i nans = _mm_or_si128(are_nan(load_16(a)), are_nan(load_16(b)));
    const values x{half(a), half(a + 8)};
    const values y{half(b), half(b + 8)};
    narrow(p, to_halves<nearest>(apply(sum{}, x, y)), nans);
  }

 private:
  static __m128i are_nan(__m128i x) {
    const __m128i magnitude = _mm_and_si128(x, _mm_set1_epi8(0x7f));
    return _mm_cmpeq_epi8(magnitude, _mm_set1_epi8(0x7f));
  }
  /// A NaN is made by setting all bits.
  static __m256 with_nans(__m256 x, __m128i nans) {
    return _mm256_or_ps(x, _mm256_castsi256_ps(_mm256_cvtepi8_epi32(nans)));
  }
  static __m256 half(const byte* p) {
    const __m128i two_signs = _mm_slli_epi16(_mm_cvtepi8_epi16(load_8(p)), 7);
    return _mm256_cvtph_ps(_mm_and_si128(two_signs, _mm_set1_epi16(~0x4000)));
  }
  static __m256i magnitude(__m256i halves) {
    return rounded<7>(_mm256_and_si256(halves, _mm256_set1_epi16(0x7fff)));
  }
  static __m128i sign(__m256i halves) {
    const __m128i upper = lower_bytes(_mm256_srli_epi16(halves, 8));
    return _mm_and_si128(upper, _mm_set1_epi8(INT8_MIN));
  }
  /// Overflow and `nans` become NaN.
  static void narrow(byte* p, __m256i halves, __m128i nans) {
    const __m128i nan = _mm_set1_epi8(0x7f);
    const __m128i number = _mm_min_epu8(lower_bytes(magnitude(halves)), nan);
    nans = _mm_or_si128(nans, _mm_cmpeq_epi8(number, nan));
    store_16(p, _mm_blendv_epi8(_mm_or_si128(number, sign(halves)), nan, nans));
  }
};

}  // namespace
}  // namespace tandem::detail
