#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tandem/collectives.hpp>

namespace tandem::perf {

/// Inputs of the ranks to a reduction: small integers, chosen so that all partial results are exact
/// in the type, in any order of combination.
class terms {
 public:
  /// The factor of every rank in a premultiplied_sum.
  static constexpr unsigned factor = 2;

  /// @pre possible()
  terms(data_type type, reduce_op op, int ranks) noexcept;
  /// False if results of this many ranks are not exact in the type, or `op` is not defined for it.
  static bool possible(data_type type, reduce_op op, int ranks) noexcept;

  /// Writes the input of `rank`. @pre Whole elements. Cost: one pass.
  void fill(std::span<std::byte> data, int rank, std::uint64_t epoch) const;
  /// Number of bytes of `result` that differ from the reduction of all ranks' inputs; its first
  /// element has index `first`. Cost: one pass for each rank.
  std::uint64_t wrong_bytes(std::span<const std::byte> result, std::size_t first,
                            std::uint64_t epoch) const;

 private:
  void generate(std::span<std::uint32_t> to, std::size_t first, int rank,
                std::uint64_t epoch) const;

  data_type type_;
  reduce_op op_;
  int ranks_;
  std::uint32_t mask_;  // terms are at most this
};

/// Number of nonzero bytes: for zeros, whose reduction is zero however often it is repeated.
std::uint64_t wrong_zeros(std::span<const std::byte> data);

}  // namespace tandem::perf
