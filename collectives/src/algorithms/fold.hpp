#pragma once

#include <bit>

namespace tandem::detail {

/// Any number of ranks as a power of two: the first 2 (n - p) join in neighbouring pairs, p the
/// greatest power of two that is not above n, and the lower one of each pair goes on for both
/// (Thakur, Rabenseifner and Gropp 2005, Optimization of Collective Communication Operations in
/// MPICH, section 4.5).
struct fold {
  constexpr fold(int ranks, int rank) noexcept
      : size(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))),
        folded(ranks - size),
        is_folded(rank < 2 * folded),
        goes_on(!is_folded || rank % 2 == 0),
        index(is_folded ? rank / 2 : rank - folded) {}

  int steps() const noexcept { return std::countr_zero(static_cast<unsigned>(size)); }
  /// The rank that goes on as number `i`.
  constexpr int rank_of(int i) const noexcept { return i < folded ? 2 * i : i + folded; }
  /// The ranks that are folded into number i, and the first of them.
  constexpr int width_of(int i) const noexcept { return i < folded ? 2 : 1; }

  int size;        ///< ranks that go on
  int folded;      ///< pairs
  bool is_folded;  ///< this rank is in a pair
  bool goes_on;
  int index;  ///< among those that go on
};

}  // namespace tandem::detail
