#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tandem/collectives.hpp>

namespace tandem::detail {

/// In the record of a call that islands carry out. A call over channels has the algorithm that the
/// plan has chosen, so that ranks which take different ways make different calls.
constexpr algorithm by_islands = algorithm::automatic;
/// In the record of a call that does not go through a vendor's library, beside those that do.
constexpr auto by_channels = static_cast<algorithm>(14);
static_assert(algorithm_count <= 14);

/// The parameters of a call that must be the same on every rank, in 64 bits. Each message of the
/// call carries them, so that the receiver can compare them and name the sender's call in an error.
class call_record {
 public:
  call_record(collective what, algorithm how, std::size_t bytes, int root = -1) noexcept
      : bits_(numbered(what, what_shift) | numbered(how, how_shift) |
              std::min<std::uint64_t>(static_cast<std::uint64_t>(root + 1), max_roots)
                  << root_shift |
              std::min<std::uint64_t>(bytes, max_bytes)) {}
  call_record(collective what, algorithm how, std::size_t bytes, data_type type, reduce_op op,
              int root = -1) noexcept
      : call_record(what, how, bytes, root) {
    bits_ |= numbered(type, type_shift) | numbered(op, op_shift);
  }
  /// From the bits of a received message.
  explicit call_record(std::uint64_t bits) noexcept : bits_(bits) {}

  /// Never 0, which marks messages that belong to no collective.
  std::uint64_t bits() const noexcept { return bits_; }
  const char* name() const noexcept;
  /// Of the call's data; at most what the record can hold.
  std::uint64_t bytes() const noexcept;
  /// Whether no rank can end its part before all ranks have made the call: it has no root.
  bool needs_all_ranks() const noexcept;
  /// "all_reduce of 4096 bytes (ring, float32, sum)", "broadcast of 8 bytes with root 1 (tree)".
  /// Accepts any bits, also invalid ones.
  std::string text() const;

 private:
  // From the most significant bit: collective, algorithm, type, operation, root (each its value
  // plus one; 0: none), bytes.
  static constexpr unsigned what_shift = 60, how_shift = 56, type_shift = 52, op_shift = 48,
                            root_shift = 36;
  static constexpr std::uint64_t max_bytes = (std::uint64_t{1} << root_shift) - 1;
  static constexpr std::uint64_t max_roots = (1 << 12) - 1;

  static std::uint64_t numbered(auto value, unsigned shift) noexcept {
    return (static_cast<std::uint64_t>(value) + 1) << shift;
  }
  std::uint64_t field(unsigned shift, unsigned width) const noexcept;

  std::uint64_t bits_;
};

/// Extends a hash of all calls of a group by one: histories differ if any earlier call differed.
inline std::uint32_t extend_history(std::uint32_t history, std::uint64_t bits) noexcept {
  // The mixing function of SplitMix64 (Steele, Lea and Flood 2014, Fast Splittable Pseudorandom
  // Number Generators).
  std::uint64_t z = (std::uint64_t{history} + 1) * 0x9e3779b97f4a7c15 + bits;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return static_cast<std::uint32_t>(z ^ z >> 31);
}

}  // namespace tandem::detail
