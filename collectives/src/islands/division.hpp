#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tandem/memory.hpp>
#include <vector>

namespace tandem::detail {

/// What ranks exchange about themselves before islands are made, as plain bytes.
struct island_fact {
  std::int32_t kind = 0;  ///< memory_kind
  std::int32_t colour = 0;
  std::int32_t library = 0;  ///< version code of the vendor's library; 0: not available
  std::int32_t reserved = 0;
  std::array<char, 32> uuid{};  ///< of the device
  std::array<char, 16> pad{};
};
static_assert(sizeof(island_fact) == 64);

/// "NCCL 2.28.3"; without the version if it is `rank_facts::unknown_version`.
std::string library_text(std::int32_t kind, std::int32_t version);

/// The division of ranks into islands, computed from the facts of all ranks: the same on every
/// rank.
struct division {
  /// @param numbers  the rank numbers to use in texts; empty: 0, 1, 2...
  explicit division(const std::vector<island_fact>& reported, std::span<const int> numbers = {});

  /// The islands in the order of their first ranks; ranks ascending.
  std::vector<std::vector<int>> members;
  std::vector<int> island_of;      ///< by rank
  std::vector<int> local_rank_of;  ///< by rank: its local rank in its island
  /// Leaders of each island, which exchange data with other islands: the size of the smallest
  /// island.
  int leader_count = 0;
  /// By island: why it cannot use its vendor's library; empty: it can, or does not need it.
  std::vector<std::string> fallback_reason;
  /// The lowest version that any rank has; 0: no rank has a library.
  int min_library_version = 0;
  std::string text;

  /// All islands can use their library, or do not need it.
  bool can_use_libraries() const noexcept;
};

/// Part `k` of `count` elements divided among `leader_count` leaders.
struct segment {
  std::size_t first = 0, count = 0;
};
segment segment_of(std::size_t count, int leader_count, int k) noexcept;

}  // namespace tandem::detail
