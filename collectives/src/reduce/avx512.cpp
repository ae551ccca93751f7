#if defined(__x86_64__)

#include <immintrin.h>

// For what follows, not for what was included: functions that headers share stay as they are.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels.hpp"
#if defined(__clang__)
#pragma clang attribute push(                                                              \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512"))), \
    apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#endif
#include "blocks.hpp"
#include "table.hpp"

namespace tandem::detail {
namespace {

struct values {
  __m512 low, high;
};

inline values apply(sum, values a, values b) {
  return {_mm512_add_ps(a.low, b.low), _mm512_add_ps(a.high, b.high)};
}
inline values apply(product, values a, values b) {
  return {_mm512_mul_ps(a.low, b.low), _mm512_mul_ps(a.high, b.high)};
}
// The processor's x < y ? x : y is ours with the operands changed over: of equal ones, and where
// one is NaN, it takes the second.
inline values apply(minimum, values a, values b) {
  return {_mm512_min_ps(b.low, a.low), _mm512_min_ps(b.high, a.high)};
}
inline values apply(maximum, values a, values b) {
  return {_mm512_max_ps(b.low, a.low), _mm512_max_ps(b.high, a.high)};
}
inline values times(values x, float by) {
  const __m512 all = _mm512_set1_ps(by);
  return {_mm512_mul_ps(x.low, all), _mm512_mul_ps(x.high, all)};
}
inline values over(values x, float by) {
  const __m512 all = _mm512_set1_ps(by);
  return {_mm512_div_ps(x.low, all), _mm512_div_ps(x.high, all)};
}

inline __m512i load_bytes(const void* p) {
  return _mm512_cvtepu8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
inline void store_bytes(void* p, __m512i x) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_cvtepi16_epi8(x));
}
inline __m512i both(__m256i low, __m256i high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

inline __m512 one_nan(__m512 x) {
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
/// Truncated, and odd where that lost something: rounding this to fewer bits gives what rounding
/// the original would.
inline __m512i to_odd_halves(values x) {
  const values exact{one_nan(x.low), one_nan(x.high)};
  const __m512i halves = to_halves<_MM_FROUND_TO_ZERO>(exact);
  const values kept = from_halves(halves);
  const __mmask32 lost = _mm512_kunpackw(_mm512_cmp_ps_mask(kept.high, exact.high, _CMP_NEQ_OQ),
                                         _mm512_cmp_ps_mask(kept.low, exact.low, _CMP_NEQ_OQ));
  return _mm512_or_si512(halves, _mm512_maskz_set1_epi16(lost, 1));
}
/// Without the lowest `Bits`, rounded to nearest even.
template <int Bits>
inline __m512i rounded(__m512i x) {
  const __m512i last = _mm512_and_si512(_mm512_srli_epi16(x, Bits), _mm512_set1_epi16(1));
  const __m512i half = _mm512_add_epi16(last, _mm512_set1_epi16((1 << (Bits - 1)) - 1));
  return _mm512_srli_epi16(_mm512_add_epi16(x, half), Bits);
}

struct float16_format {
  static constexpr std::size_t bytes = 2, count = 32;
  static constexpr float scale = 1;
  static values load(const void* p) { return from_halves(_mm512_loadu_si512(p)); }
  static void store(void* p, values x) {
    _mm512_storeu_si512(p, to_halves<_MM_FROUND_TO_NEAREST_INT>({one_nan(x.low), one_nan(x.high)}));
  }
};

struct bfloat16_format {
  static constexpr std::size_t bytes = 2, count = 32;
  static constexpr float scale = 1;
  static values load(const void* p) {
    const __m512i x = _mm512_loadu_si512(p);
    return {widened(_mm512_castsi512_si256(x)), widened(_mm512_extracti64x4_epi64(x, 1))};
  }
  static void store(void* p, values x) {
    _mm512_storeu_si512(p, both(upper(x.low), upper(x.high)));
  }
  static __m512 widened(__m256i x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
  }
  static __m256i upper(__m512 x) {
    const __m512i bits = _mm512_castps_si512(one_nan(x));
    const __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i half = _mm512_add_epi32(last, _mm512_set1_epi32(0x7fff));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_add_epi32(bits, half), 16));
  }
};

/// A float16 without its lower byte.
struct e5m2_format {
  static constexpr std::size_t bytes = 1, count = 32;
  static constexpr float scale = 1;
  static values load(const void* p) { return from_halves(_mm512_slli_epi16(load_bytes(p), 8)); }
  static void store(void* p, values x) { store_bytes(p, rounded<8>(to_odd_halves(x))); }
};

/// Moved up by seven bits it is a float16 of the number times 2^-8, subnormal numbers included.
struct e4m3_format {
  static constexpr std::size_t bytes = 1, count = 32;
  static constexpr float scale = 256;
  static values load(const void* p) {
    const __m512i x = load_bytes(p);
    const __m512i twice_the_sign = _mm512_srai_epi16(_mm512_slli_epi16(x, 8), 1);
    const __m512i number = _mm512_and_si512(twice_the_sign, _mm512_set1_epi16(~0x4000));
    const __m512i magnitude = _mm512_and_si512(x, _mm512_set1_epi16(0x7f));
    const __mmask32 is_nan = _mm512_cmpeq_epi16_mask(magnitude, _mm512_set1_epi16(0x7f));
    return from_halves(_mm512_or_si512(number, _mm512_maskz_set1_epi16(is_nan, 0x7c00)));
  }
  static void store(void* p, values x) {
    const __m512i halves = to_odd_halves(x);
    const __m512i nan = _mm512_set1_epi16(0x7f);
    const __m512i magnitude = rounded<7>(_mm512_and_si512(halves, _mm512_set1_epi16(0x7fff)));
    const __m512i number = _mm512_min_epu16(magnitude, nan);
    const __m512i sign = _mm512_and_si512(_mm512_srli_epi16(halves, 8), _mm512_set1_epi16(0x80));
    const __mmask32 is_number = _mm512_cmpneq_epi16_mask(number, nan);
    store_bytes(p, _mm512_or_si512(number, _mm512_maskz_mov_epi16(is_number, sign)));
  }
};

struct narrow {
  using float16 = by_blocks<float16_format>;
  using bfloat16 = by_blocks<bfloat16_format>;
  using e4m3 = by_blocks<e4m3_format>;
  using e5m2 = by_blocks<e5m2_format>;
};

}  // namespace

constinit const kernel_table avx512_kernels = make_table<narrow>();

}  // namespace tandem::detail

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
