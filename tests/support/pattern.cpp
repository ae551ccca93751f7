#include "support/pattern.hpp"

#include <algorithm>
#include <cstring>

namespace tandem::test {
namespace {

/// SplitMix64 (Steele, Lea, Flood, 2014) of the word's index: any part can be checked by itself.
std::uint64_t word_at(std::uint64_t seed, std::size_t index) {
  std::uint64_t z = seed * 0x2545f4914f6cdd1dU + (index + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

}  // namespace

void fill(std::span<std::byte> bytes, std::uint64_t seed) {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = word_at(seed, at / 8);
    std::memcpy(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at));
  }
}

std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed) {
  std::vector<std::byte> result(bytes);
  fill(result, seed);
  return result;
}

std::optional<std::size_t> first_wrong(std::span<const std::byte> bytes, std::uint64_t seed) {
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = word_at(seed, at / 8);
    if (std::memcmp(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at)) != 0) {
      return at;
    }
  }
  return {};
}

}  // namespace tandem::test
