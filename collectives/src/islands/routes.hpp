#pragma once

#include "algorithms/blocks.hpp"
#include "islands/division.hpp"

namespace tandem::detail {

/// Who carries which rank's block from island to island. As many members of each island do as the
/// smallest has, P: the block of the member at place q goes by place q mod P, of whichever island
/// it is in. There the blocks lie side by side in slots, island after island, so that all of an
/// island's are one stretch.
class routes {
 public:
  explicit routes(const division& d);

  /// The place whose ranks carry the block of this rank.
  int carrier(int rank) const noexcept { return place_of(rank) % of_.places; }
  /// Where it lies there.
  std::size_t slot(int rank) const noexcept;
  /// How many slots a place has. @pre `place` is less than P
  std::size_t slots(int place) const noexcept;
  /// How many of them are of each island's ranks.
  std::vector<std::size_t> slots_by_island(int place) const;
  /// The ranks of an island, besides itself, for which a place carries.
  std::vector<int> wards(int island, int place) const;
  /// Each rank's slot has the number of that rank: nothing need be moved to lie in slots.
  bool is_in_order() const noexcept;
  /// Where a rank's blocks for the ranks of other islands lie among those for all; of no bytes for
  /// its own island.
  blocks abroad(int rank, std::size_t block_bytes) const;

 private:
  int place_of(int rank) const noexcept { return of_.place_of[static_cast<std::size_t>(rank)]; }
  std::size_t slots_of(std::size_t island, int place) const noexcept;

  const division& of_;
};

}  // namespace tandem::detail
