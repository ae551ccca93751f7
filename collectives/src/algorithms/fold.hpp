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

/// Neighbours, then pairs, then fours, of any number: `join(lower, higher, is_last)`, `lower` goes
/// on for both.
template <class Join>
void join_pairs(int count, Join&& join) {
  for (int d = 1; d < count; d *= 2) {
    for (int i = 0; i + d < count; i += 2 * d) join(i, i + d, 2 * d >= count);
  }
}

/// Ranks in the order of recursive doubling: those that are folded, then pairs of what goes on.
template <class Join>
void join_folded(const fold& as, Join&& join) {
  for (int i = 0; i < as.folded; ++i) join(as.rank_of(i), as.rank_of(i) + 1, false);
  join_pairs(as.size, [&](int lower, int higher, bool is_last) {
    join(as.rank_of(lower), as.rank_of(higher), is_last);
  });
}

}  // namespace tandem::detail
