#pragma once

#include "islands/division.hpp"
#include "partition/blocks.hpp"

namespace tandem::detail {

/// Which leader transfers which rank's block between islands. With P leaders per island, the block
/// of the member with local rank q is transferred by leader q mod P, whichever island it is in.
/// There the blocks are stored in consecutive slots, island after island, so that all blocks of an
/// island are contiguous.
class routes {
 public:
  explicit routes(const division& d);

  /// The leader that transfers the block of this rank.
  int leader(int rank) const noexcept { return local_rank_of(rank) % of_.leader_count; }
  /// The slot of the block there.
  std::size_t slot(int rank) const noexcept;
  /// The number of slots of a leader. @pre `leader_index` is less than P
  std::size_t slots(int leader_index) const noexcept;
  /// The number of its slots for ranks of each island.
  std::vector<std::size_t> slots_by_island(int leader_index) const;
  /// The other ranks of an island whose blocks a leader transfers.
  std::vector<int> followers(int island, int leader_index) const;
  /// Whether each rank's slot number equals the rank, so that nothing need be moved into slots.
  bool is_in_order() const noexcept;
  /// The blocks for ranks of other islands in a view with a block for each rank; those for this
  /// rank's own island are empty.
  blocks blocks_outside(int rank, std::size_t block_bytes) const;

 private:
  int local_rank_of(int rank) const noexcept {
    return of_.local_rank_of[static_cast<std::size_t>(rank)];
  }
  std::size_t slots_of(std::size_t island, int leader_index) const noexcept;

  const division& of_;
};

}  // namespace tandem::detail
