#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <tandem/collectives/reduction.hpp>

namespace tandem::perf {

/// What the ranks bring to a reduction: small whole numbers, chosen so that all partial results
/// are exact in the type, in whatever order they are combined.
class terms {
 public:
  /// The factor by which every rank multiplies in a premultiplied_sum.
  static constexpr unsigned factor = 2;

  /// @pre possible()
  terms(data_type type, reduce_op op, int ranks) noexcept;
  /// False where the type cannot hold results of so many ranks exactly, or is not reduced so.
  static bool possible(data_type type, reduce_op op, int ranks) noexcept;

  /// Writes what `rank` brings. @pre whole elements. Cost: one pass.
  void fill(std::span<std::byte> data, int rank, std::uint64_t epoch) const;
  /// How many bytes of `result` differ from the combination of what all ranks have brought; its
  /// first element is number `first`. Cost: one pass for each rank.
  std::uint64_t wrong_bytes(std::span<const std::byte> result, std::size_t first,
                            std::uint64_t epoch) const;

 private:
  void bring(std::span<std::uint32_t> to, std::size_t first, int rank, std::uint64_t epoch) const;

  data_type type_;
  reduce_op op_;
  int ranks_;
  std::uint32_t mask_;  // terms are at most this
};

/// How many bytes are not zero: for data whose reduction is zero, however often it is reduced.
std::uint64_t wrong_zeros(std::span<const std::byte> data);

}  // namespace tandem::perf
