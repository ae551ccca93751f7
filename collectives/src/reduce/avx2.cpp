#if defined(__x86_64__)

#include <immintrin.h>

#include "kernels.hpp"

// Only for what follows. Functions of headers that other sources include as well must be compiled
// for every processor, because the linker may keep the copy of this source for all.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,f16c")
#endif
#include "avx2_float8.hpp"
#include "avx2_vectors.hpp"
#include "blocks.hpp"
#include "table.hpp"

namespace tandem::detail {
namespace {

inline __m256i load_32(const byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline void store_32(byte* p, __m256i x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x);
}

struct float16_format {
  static constexpr std::size_t bytes = 2, count = 16;
  static constexpr float scale = 1;
  static constexpr float greatest = float16_number::max();

  static values load(const byte* p) { return from_halves(load_32(p)); }
  static void store(byte* p, values x) {
    store_finite(p, {canonical_nan(x.low), canonical_nan(x.high)});
  }
  static void store_finite(byte* p, values x) {
    store_32(p, to_halves<_MM_FROUND_TO_NEAREST_INT>(x));
  }
};

struct bfloat16_format {
  static constexpr std::size_t bytes = 2, count = 16;
  static constexpr float scale = 1;
  static constexpr float greatest = bfloat16_number::max();

  static values load(const byte* p) { return {widened(p), widened(p + 16)}; }
  static void store(byte* p, values x) {
    store_finite(p, {canonical_nan(x.low), canonical_nan(x.high)});
  }
  static void store_finite(byte* p, values x) {
    store_32(p, in_order(_mm256_packus_epi32(upper(x.low), upper(x.high))));
  }

 private:
  static __m256 widened(const byte* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_16(p)), 16));
  }
  static __m256i upper(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(last, _mm256_set1_epi32(0x7fff));
    return _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
  }
};

struct narrow {
  static constexpr std::size_t vector_bytes = 32;
  using float16 = by_blocks<float16_format>;
  using bfloat16 = by_blocks<bfloat16_format>;
  using e4m3 = by_blocks<e4m3_format>;
  using e5m2 = by_blocks<e5m2_format>;

  template <class Word, class Words>
  static bool any_negative(const Words& words) {
    constexpr Word lowest = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));
    const Words signs = Words{} + lowest;
    return _mm256_testz_si256(reinterpret_cast<__m256i>(words), reinterpret_cast<__m256i>(signs)) ==
           0;
  }
};

}  // namespace

constinit const kernel_table avx2_kernels = make_table<narrow>();

}  // namespace tandem::detail

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
