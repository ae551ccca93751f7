#if defined(__x86_64__)

#include <immintrin.h>

// For what follows, not for what was included: functions that headers share stay as they are.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels.hpp"
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,f16c")
#endif
#include "blocks.hpp"
#include "table.hpp"

namespace tandem::detail {
namespace {

struct values {
  __m256 low, high;
};

inline values apply(sum, values a, values b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline values apply(product, values a, values b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
// The processor's x < y ? x : y is ours with the operands changed over: of equal ones, and where
// one is NaN, it takes the second.
inline values apply(minimum, values a, values b) {
  return {_mm256_min_ps(b.low, a.low), _mm256_min_ps(b.high, a.high)};
}
inline values apply(maximum, values a, values b) {
  return {_mm256_max_ps(b.low, a.low), _mm256_max_ps(b.high, a.high)};
}
inline values times(values x, float by) {
  const __m256 all = _mm256_set1_ps(by);
  return {_mm256_mul_ps(x.low, all), _mm256_mul_ps(x.high, all)};
}
inline values over(values x, float by) {
  const __m256 all = _mm256_set1_ps(by);
  return {_mm256_div_ps(x.low, all), _mm256_div_ps(x.high, all)};
}

inline __m256i load_16(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline __m256i load_bytes(const void* p) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
inline void store_16(void* p, __m256i x) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), x);
}
inline void store_bytes(void* p, __m256i x) {
  const __m128i packed =
      _mm_packus_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
  _mm_storeu_si128(static_cast<__m128i*>(p), packed);
}
/// Puts back in order what was packed in each half by itself.
inline __m256i in_order(__m256i packed) {
  return _mm256_permute4x64_epi64(packed, 0xd8);
}

inline __m256 one_nan(__m256 x) {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc0'0000));
  return _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
inline values from_halves(__m256i x) {
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(x)),
          _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1))};
}
template <int Rounding>
inline __m256i to_halves(values x) {
  return _mm256_set_m128i(_mm256_cvtps_ph(x.high, Rounding), _mm256_cvtps_ph(x.low, Rounding));
}
/// Truncated, and odd where that lost something: rounding this to fewer bits gives what rounding
/// the original would.
inline __m256i to_odd_halves(values x) {
  const values exact{one_nan(x.low), one_nan(x.high)};
  const __m256i halves = to_halves<_MM_FROUND_TO_ZERO>(exact);
  const values kept = from_halves(halves);
  const __m256i lost = in_order(
      _mm256_packs_epi32(_mm256_castps_si256(_mm256_cmp_ps(kept.low, exact.low, _CMP_NEQ_OQ)),
                         _mm256_castps_si256(_mm256_cmp_ps(kept.high, exact.high, _CMP_NEQ_OQ))));
  return _mm256_or_si256(halves, _mm256_and_si256(lost, _mm256_set1_epi16(1)));
}
/// Without the lowest `Bits`, rounded to nearest even.
template <int Bits>
inline __m256i rounded(__m256i x) {
  const __m256i last = _mm256_and_si256(_mm256_srli_epi16(x, Bits), _mm256_set1_epi16(1));
  const __m256i half = _mm256_add_epi16(last, _mm256_set1_epi16((1 << (Bits - 1)) - 1));
  return _mm256_srli_epi16(_mm256_add_epi16(x, half), Bits);
}

struct float16_format {
  static constexpr std::size_t bytes = 2, count = 16;
  static constexpr float scale = 1;
  static values load(const void* p) { return from_halves(load_16(p)); }
  static void store(void* p, values x) {
    store_16(p, to_halves<_MM_FROUND_TO_NEAREST_INT>({one_nan(x.low), one_nan(x.high)}));
  }
};

struct bfloat16_format {
  static constexpr std::size_t bytes = 2, count = 16;
  static constexpr float scale = 1;
  static values load(const void* p) {
    const __m256i x = load_16(p);
    return {widened(_mm256_castsi256_si128(x)), widened(_mm256_extracti128_si256(x, 1))};
  }
  static void store(void* p, values x) {
    store_16(p, in_order(_mm256_packus_epi32(upper(x.low), upper(x.high))));
  }
  static __m256 widened(__m128i x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
  }
  static __m256i upper(__m256 x) {
    const __m256i bits = _mm256_castps_si256(one_nan(x));
    const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(last, _mm256_set1_epi32(0x7fff));
    return _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
  }
};

/// A float16 without its lower byte.
struct e5m2_format {
  static constexpr std::size_t bytes = 1, count = 16;
  static constexpr float scale = 1;
  static values load(const void* p) { return from_halves(_mm256_slli_epi16(load_bytes(p), 8)); }
  static void store(void* p, values x) { store_bytes(p, rounded<8>(to_odd_halves(x))); }
};

/// Moved up by seven bits it is a float16 of the number times 2^-8, subnormal numbers included.
struct e4m3_format {
  static constexpr std::size_t bytes = 1, count = 16;
  static constexpr float scale = 256;
  static values load(const void* p) {
    const __m256i x = load_bytes(p);
    const __m256i twice_the_sign = _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 1);
    const __m256i number = _mm256_and_si256(twice_the_sign, _mm256_set1_epi16(~0x4000));
    const __m256i magnitude = _mm256_and_si256(x, _mm256_set1_epi16(0x7f));
    const __m256i is_nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7f));
    return from_halves(
        _mm256_or_si256(number, _mm256_and_si256(is_nan, _mm256_set1_epi16(0x7c00))));
  }
  static void store(void* p, values x) {
    const __m256i halves = to_odd_halves(x);
    const __m256i nan = _mm256_set1_epi16(0x7f);
    const __m256i magnitude = rounded<7>(_mm256_and_si256(halves, _mm256_set1_epi16(0x7fff)));
    const __m256i number = _mm256_min_epu16(magnitude, nan);
    const __m256i sign = _mm256_and_si256(_mm256_srli_epi16(halves, 8), _mm256_set1_epi16(0x80));
    store_bytes(
        p, _mm256_or_si256(number, _mm256_andnot_si256(_mm256_cmpeq_epi16(number, nan), sign)));
  }
};

struct narrow {
  using float16 = by_blocks<float16_format>;
  using bfloat16 = by_blocks<bfloat16_format>;
  using e4m3 = by_blocks<e4m3_format>;
  using e5m2 = by_blocks<e5m2_format>;
};

}  // namespace

constinit const kernel_table avx2_kernels = make_table<narrow>();

}  // namespace tandem::detail

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
