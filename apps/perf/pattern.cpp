#include "perf/pattern.hpp"

#include <algorithm>
#include <cstring>

namespace tandem::perf {

namespace {

constexpr std::size_t word_bytes = 8;
constexpr std::uint64_t golden = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio, odd: all words differ

/// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
/// generators).
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

std::uint64_t seed_of(const message_id& id) {
  const std::uint64_t rank = static_cast<std::uint32_t>(id.rank);
  const std::uint64_t slot = static_cast<std::uint32_t>(id.slot);
  return mix(mix((rank << 32 | slot) + golden) + id.epoch * golden);
}

std::uint64_t wrong_in(const std::byte* found, std::uint64_t expected, std::size_t bytes) {
  if (bytes == word_bytes && std::memcmp(found, &expected, word_bytes) == 0) return 0;
  std::byte wanted[word_bytes];
  std::memcpy(wanted, &expected, word_bytes);
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < bytes; ++i) wrong += found[i] != wanted[i];
  return wrong;
}

/// Layout of the marks: one at the start, one at the end as far as it does not overlap the first.
struct marks {
  std::size_t first_bytes, last_offset, last_bytes;
  explicit marks(std::size_t bytes)
      : first_bytes(std::min(bytes, word_bytes)),
        last_offset(std::max(first_bytes, bytes - std::min(bytes, word_bytes))),
        last_bytes(bytes - last_offset) {}
};

std::uint64_t mark_of(const message_id& id, std::uint64_t iteration) {
  return mix(seed_of(id) ^ mix(iteration + 1));
}

}  // namespace

void fill(std::span<std::byte> message, const message_id& id, std::uint64_t iteration) {
  const std::uint64_t seed = seed_of(id);
  std::byte* const out = message.data();
  const std::size_t words = message.size() / word_bytes;
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t word = seed + i * golden;
    std::memcpy(out + i * word_bytes, &word, word_bytes);
  }
  const std::uint64_t tail = seed + words * golden;
  std::memcpy(out + words * word_bytes, &tail, message.size() % word_bytes);
  mark(message, id, iteration);
}

void mark(std::span<std::byte> message, const message_id& id, std::uint64_t iteration) {
  const marks at(message.size());
  const std::uint64_t first = mark_of(id, iteration);
  const std::uint64_t last = ~first;
  std::memcpy(message.data(), &first, at.first_bytes);
  std::memcpy(message.data() + at.last_offset, &last, at.last_bytes);
}

std::uint64_t wrong_marks(std::span<const std::byte> message, const message_id& id,
                          std::uint64_t iteration) {
  const marks at(message.size());
  const std::uint64_t first = mark_of(id, iteration);
  return wrong_in(message.data(), first, at.first_bytes) +
         wrong_in(message.data() + at.last_offset, ~first, at.last_bytes);
}

std::uint64_t wrong_bytes(std::span<const std::byte> message, const message_id& id,
                          std::uint64_t iteration) {
  std::uint64_t wrong = wrong_marks(message, id, iteration);
  const marks at(message.size());
  const std::uint64_t seed = seed_of(id);
  for (std::size_t offset = word_bytes; offset < at.last_offset; offset += word_bytes) {
    const std::uint64_t word = seed + offset / word_bytes * golden;
    const std::size_t bytes = std::min(word_bytes, at.last_offset - offset);
    wrong += wrong_in(message.data() + offset, word, bytes);
  }
  return wrong;
}

void clear(std::span<std::byte> message) {
  std::memset(message.data(), 0xA5, message.size());
}

}  // namespace tandem::perf
