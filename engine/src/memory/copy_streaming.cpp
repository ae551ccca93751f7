#include <cstdint>
#include <cstring>
#include <tandem/detail/copy.hpp>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace tandem::detail {
namespace {

#if defined(__x86_64__)

constexpr std::size_t line_bytes = 64;

/// Non-temporal stores of whole cache lines; normal copies before and after them.
void stream(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(to) % line_bytes;
  if (before > 0) std::memcpy(to, from, before);
  to += before;
  from += before;
  bytes -= before;
  for (; bytes >= line_bytes; bytes -= line_bytes, to += line_bytes, from += line_bytes) {
    const auto* const of = reinterpret_cast<const __m128i*>(from);
    auto* const into = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(of);
    const __m128i b = _mm_loadu_si128(of + 1);
    const __m128i c = _mm_loadu_si128(of + 2);
    const __m128i d = _mm_loadu_si128(of + 3);
    _mm_stream_si128(into, a);
    _mm_stream_si128(into + 1, b);
    _mm_stream_si128(into + 2, c);
    _mm_stream_si128(into + 3, d);
  }
  if (bytes > 0) std::memcpy(to, from, bytes);
  _mm_sfence();  // non-temporal stores are not ordered with later ones
}

#endif

}  // namespace

void copy_part(void* to, const void* from, std::size_t bytes, std::size_t whole_bytes) noexcept {
  if (bytes == 0) return;
#if defined(__x86_64__)
  if (whole_bytes >= streamed_bytes && bytes >= line_bytes) {
    return stream(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
  }
#endif
  std::memcpy(to, from, bytes);
}

}  // namespace tandem::detail
