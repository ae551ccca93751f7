#pragma once

#include <bit>

namespace tandem::detail {

/// Reduces any number of ranks n to p, the greatest power of two not above n: the first 2 (n - p)
/// ranks form neighbouring pairs, and the lower rank of each pair continues for both (Thakur,
/// Rabenseifner and Gropp 2005, Optimization of Collective Communication Operations in MPICH,
/// section 4.5).
struct fold {
  constexpr fold(int ranks, int rank) noexcept
      : size(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))),
        folded(ranks - size),
        is_folded(rank < 2 * folded),
        continues(!is_folded || rank % 2 == 0),
        index(is_folded ? rank / 2 : rank - folded) {}

  int steps() const noexcept { return std::countr_zero(static_cast<unsigned>(size)); }
  /// The rank that continues with index `i`.
  constexpr int rank_of(int i) const noexcept { return i < folded ? 2 * i : i + folded; }
  /// How many ranks are folded into index i, including the one that continues.
  constexpr int width_of(int i) const noexcept { return i < folded ? 2 : 1; }

  int size;        ///< ranks that continue
  int folded;      ///< pairs
  bool is_folded;  ///< this rank is in a pair
  bool continues;
  int index;  ///< among the ranks that continue
};

/// Calls `join(lower, higher, is_last)` for neighbours, then pairs, then fours, for any count; the
/// result stays with `lower`.
template <class Join>
void join_pairs(int count, Join&& join) {
  for (int d = 1; d < count; d *= 2) {
    for (int i = 0; i + d < count; i += 2 * d) join(i, i + d, 2 * d >= count);
  }
}

/// The same for ranks in the order of recursive doubling: first the folded pairs, then the ranks
/// that continue.
template <class Join>
void join_folded(const fold& as, Join&& join) {
  for (int i = 0; i < as.folded; ++i) join(as.rank_of(i), as.rank_of(i) + 1, false);
  join_pairs(as.size, [&](int lower, int higher, bool is_last) {
    join(as.rank_of(lower), as.rank_of(higher), is_last);
  });
}

}  // namespace tandem::detail
