#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tandem::test {

/// The content of memory into which nothing may be written.
inline constexpr std::byte untouched{0xee};
/// No view in a test has more bytes: a longer one has a wrong length, and must not be accessed.
inline constexpr std::size_t longest_view_bytes = std::size_t{1} << 29;

/// Bytes that identify their message and their offset in it.
void fill(std::span<std::byte> bytes, std::uint64_t seed);
std::vector<std::byte> pattern(std::size_t bytes, std::uint64_t seed);
/// The first offset at which the bytes differ from `fill` of the same length, or empty.
std::optional<std::size_t> first_wrong(std::span<const std::byte> bytes, std::uint64_t seed);

}  // namespace tandem::test
