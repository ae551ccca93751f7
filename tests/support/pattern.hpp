#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tandem::test {

/// Of memory into which nothing may be written.
inline constexpr std::byte untouched{0xee};
/// Nobody has as much: a longer view lies, and nothing may look at it.
inline constexpr std::size_t longest_view_bytes = std::size_t{1} << 29;

/// Bytes that tell from which message, and from which place in it, they are.
void fill(std::span<std::byte> bytes, std::uint64_t seed);
std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed);
/// Where the bytes first differ from `fill` of the same length, or empty.
std::optional<std::size_t> first_wrong(std::span<const std::byte> bytes, std::uint64_t seed);

}  // namespace tandem::test
