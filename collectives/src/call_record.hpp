#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tandem/collectives/algorithm.hpp>
#include <tandem/collectives/reduction.hpp>

namespace tandem::detail {

/// What a rank calls: all that has to be the same on every rank. Travels with each message of the
/// call in 64 bits, so that who receives it can compare and say what the other one meant.
class call_record {
 public:
  call_record(collective what, algorithm how, std::size_t bytes, int root = -1) noexcept;
  call_record(collective what, algorithm how, std::size_t bytes, data_type type, reduce_op op,
              int root = -1) noexcept;
  /// Of what a message said.
  explicit call_record(std::uint64_t bits) noexcept : bits_(bits) {}

  /// Never 0: that is a message of no collective.
  std::uint64_t bits() const noexcept { return bits_; }
  const char* name() const noexcept;
  /// "all_reduce of 4096 bytes (ring, float32, sum)", "broadcast of 8 bytes from rank 1 (tree)".
  /// Also of bits that no correct rank sends.
  std::string text() const;

 private:
  std::uint64_t field(unsigned shift, unsigned width) const noexcept;

  std::uint64_t bits_;
};

/// What a group has called before, as one number: it differs where anything ever differed.
std::uint32_t follow(std::uint32_t history, std::uint64_t bits) noexcept;

}  // namespace tandem::detail
