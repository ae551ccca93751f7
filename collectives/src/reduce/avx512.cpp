#if defined(__x86_64__)

#include <immintrin.h>

#include "kernels.hpp"

// Only for what follows. Functions of headers that other sources include as well must be compiled
// for every processor, because the linker may keep the copy of this source for all.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), \
                             apply_to = function)
#else
// Where memory bandwidth is the limit, loops over 64-byte vectors are slower than over 32-byte
// ones.
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=256")
#endif
#include "avx512_float8.hpp"
#include "avx512_vectors.hpp"
#include "blocks.hpp"
#include "table.hpp"

namespace tandem::detail {
namespace {

struct float16_format {
  static constexpr std::size_t bytes = 2, count = 32;
  static constexpr float scale = 1;
  static constexpr float greatest = float16_number::max();

  static values load(const byte* p) { return from_halves(_mm512_loadu_si512(p)); }
  static void store(byte* p, values x) {
    store_finite(p, {canonical_nan(x.low), canonical_nan(x.high)});
  }
  static void store_finite(byte* p, values x) {
    _mm512_storeu_si512(p, to_halves<_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC>(x));
  }
};

/// Without AVX512_BF16; see bfloat16_number.
struct bfloat16_format {
  static constexpr std::size_t bytes = 2, count = 32;
  static constexpr float scale = 1;
  static constexpr float greatest = bfloat16_number::max();

  static values load(const byte* p) { return {widened(p), widened(p + 32)}; }
  static void store(byte* p, values x) {
    store_finite(p, {canonical_nan(x.low), canonical_nan(x.high)});
  }
  static void store_finite(byte* p, values x) {
    _mm512_storeu_si512(p, both(upper(x.low), upper(x.high)));
  }

 private:
  static __m512 widened(const byte* p) {
    const __m256i x = load_32(p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
  }
  static __m256i upper(__m512 x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i half = _mm512_add_epi32(last, _mm512_set1_epi32(0x7fff));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_add_epi32(bits, half), 16));
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

constinit const kernel_table avx512_kernels = make_table_of_wide<narrow>();

}  // namespace tandem::detail

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
