#include <array>
#include <cstring>
#include <tandem/detail/crc32c.hpp>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace tandem {
namespace {

constexpr std::uint32_t polynomial = 0x82f63b78;  // RFC 3720, reflected

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1U) != 0 ? polynomial : 0U);
    table[i] = c;
  }
  return table;
}

std::uint32_t by_table(const unsigned char* p, std::size_t bytes, std::uint32_t crc) noexcept {
  static constexpr std::array<std::uint32_t, 256> table = make_table();
  for (; bytes > 0; --bytes) crc = table[(crc ^ *p++) & 0xffU] ^ (crc >> 8);
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(const unsigned char* p,
                                                               std::size_t bytes,
                                                               std::uint32_t crc) noexcept {
  std::uint64_t wide = crc;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, p, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  auto narrow = static_cast<std::uint32_t>(wide);
  for (; bytes > 0; --bytes) narrow = _mm_crc32_u8(narrow, *p++);
  return narrow;
}

/// Below this size, setting up and finishing the folds costs more than they save.
constexpr std::size_t min_folded_bytes = 512;

std::uint32_t by_folding_128(const unsigned char* p, std::size_t bytes,
                             std::uint32_t crc) noexcept {
  if (bytes < min_folded_bytes) return by_instruction(p, bytes, crc);
  const std::size_t whole = bytes / 64 * 64;
  return by_instruction(p + whole, bytes - whole, fold_128(p, whole / 64, crc));
}

std::uint32_t by_folding_512(const unsigned char* p, std::size_t bytes,
                             std::uint32_t crc) noexcept {
  if (bytes < min_folded_bytes) return by_instruction(p, bytes, crc);
  const std::size_t whole = bytes / 256 * 256;
  return by_instruction(p + whole, bytes - whole, fold_512(p, whole / 256, crc));
}
#endif

using function = std::uint32_t (*)(const unsigned char*, std::size_t, std::uint32_t) noexcept;

function choose() noexcept {
#if defined(__x86_64__)
  if (can_fold_512()) return by_folding_512;
  if (can_fold_128()) return by_folding_128;
  if (__builtin_cpu_supports("sse4.2")) return by_instruction;
#endif
  return by_table;
}

}  // namespace

std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t before) noexcept {
  static const function chosen = choose();
  return ~chosen(static_cast<const unsigned char*>(data), bytes, ~before);
}

}  // namespace tandem
