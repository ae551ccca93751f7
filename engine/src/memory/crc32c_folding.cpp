#include <tandem/detail/crc32c.hpp>

#if defined(__x86_64__)

#include <immintrin.h>

namespace tandem {
namespace {

/// x^n modulo the polynomial, bits reflected, in 33 bits: shifts a remainder by n bits.
constexpr std::uint64_t power(unsigned n) {
  std::uint32_t r = 1;
  for (; n > 0; --n) r = (r << 1) ^ ((r >> 31) != 0 ? 0x1edc6f41U : 0U);
  std::uint64_t reflected = 0;
  for (unsigned bit = 0; bit < 32; ++bit) reflected |= std::uint64_t{r >> bit & 1U} << (31 - bit);
  return reflected << 1;
}

/// Constants that fold 128 bits over a distance of `Bits`: for the low and the high half.
template <unsigned Bits>
constexpr std::uint64_t low = power(Bits + 32);
template <unsigned Bits>
constexpr std::uint64_t high = power(Bits - 32);

#define TANDEM_FOLDING_128 __attribute__((target("sse4.2,pclmul")))
#define TANDEM_FOLDING_512 __attribute__((target("avx512f,vpclmulqdq,sse4.2,pclmul")))

TANDEM_FOLDING_128 inline __m128i constants(std::uint64_t l, std::uint64_t h) {
  return _mm_set_epi64x(static_cast<long long>(h), static_cast<long long>(l));
}
TANDEM_FOLDING_128 inline __m128i fold(__m128i x, __m128i k, __m128i onto) {
  return _mm_xor_si128(
      _mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11)), onto);
}
TANDEM_FOLDING_128 inline __m128i load(const unsigned char* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
/// The CRC of the 16 bytes into which all data was folded.
TANDEM_FOLDING_128 inline std::uint32_t finish(__m128i x) {
  const auto l = static_cast<std::uint64_t>(_mm_cvtsi128_si64(x));
  const auto h = static_cast<std::uint64_t>(_mm_extract_epi64(x, 1));
  return static_cast<std::uint32_t>(_mm_crc32_u64(_mm_crc32_u64(0, l), h));
}

TANDEM_FOLDING_512 inline __m512i fold(__m512i x, __m512i k, __m512i onto) {
  return _mm512_xor_si512(
      _mm512_xor_si512(_mm512_clmulepi64_epi128(x, k, 0x00), _mm512_clmulepi64_epi128(x, k, 0x11)),
      onto);
}
TANDEM_FOLDING_512 inline __m512i wide(std::uint64_t l, std::uint64_t h) {
  return _mm512_broadcast_i32x4(constants(l, h));
}

}  // namespace

bool can_fold_128() noexcept {
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

bool can_fold_512() noexcept {
  return can_fold_128() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("vpclmulqdq");
}

TANDEM_FOLDING_128 std::uint32_t fold_128(const unsigned char* p, std::size_t blocks,
                                          std::uint32_t crc) noexcept {
  __m128i x0 = _mm_xor_si128(load(p), _mm_cvtsi32_si128(static_cast<int>(crc)));
  __m128i x1 = load(p + 16), x2 = load(p + 32), x3 = load(p + 48);
  const __m128i k = constants(low<512>, high<512>);
  for (--blocks, p += 64; blocks > 0; --blocks, p += 64) {
    x0 = fold(x0, k, load(p));
    x1 = fold(x1, k, load(p + 16));
    x2 = fold(x2, k, load(p + 32));
    x3 = fold(x3, k, load(p + 48));
  }
  x3 = fold(x2, constants(low<128>, high<128>), x3);
  x3 = fold(x1, constants(low<256>, high<256>), x3);
  return finish(fold(x0, constants(low<384>, high<384>), x3));
}

TANDEM_FOLDING_512 std::uint32_t fold_512(const unsigned char* p, std::size_t blocks,
                                          std::uint32_t crc) noexcept {
  const __m512i first = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(crc)));
  __m512i x0 = _mm512_xor_si512(_mm512_loadu_si512(p), first);
  __m512i x1 = _mm512_loadu_si512(p + 64), x2 = _mm512_loadu_si512(p + 128),
          x3 = _mm512_loadu_si512(p + 192);
  const __m512i k = wide(low<2048>, high<2048>);
  for (--blocks, p += 256; blocks > 0; --blocks, p += 256) {
    x0 = fold(x0, k, _mm512_loadu_si512(p));
    x1 = fold(x1, k, _mm512_loadu_si512(p + 64));
    x2 = fold(x2, k, _mm512_loadu_si512(p + 128));
    x3 = fold(x3, k, _mm512_loadu_si512(p + 192));
  }
  x3 = fold(x2, wide(low<512>, high<512>), x3);
  x3 = fold(x1, wide(low<1024>, high<1024>), x3);
  x3 = fold(x0, wide(low<1536>, high<1536>), x3);
  __m128i x = _mm512_extracti32x4_epi32(x3, 3);
  x = fold(_mm512_extracti32x4_epi32(x3, 2), constants(low<128>, high<128>), x);
  x = fold(_mm512_extracti32x4_epi32(x3, 1), constants(low<256>, high<256>), x);
  return finish(fold(_mm512_extracti32x4_epi32(x3, 0), constants(low<384>, high<384>), x));
}

}  // namespace tandem

#endif
