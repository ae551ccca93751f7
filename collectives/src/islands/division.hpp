#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tandem/memory.hpp>
#include <vector>

namespace tandem::detail {

/// What a rank says of itself before islands are made; the same bytes for all.
struct island_fact {
  std::int32_t kind = 0;  ///< memory_kind
  std::int32_t colour = 0;
  std::int32_t library = 0;  ///< its version as the vendor counts; 0: none
  std::int32_t reserved = 0;
  std::array<char, 32> uuid{};  ///< of the device
  std::array<char, 16> pad{};
};
static_assert(sizeof(island_fact) == 64);

/// "NCCL 2.28.3"; without the version where it is `rank_facts::some_library`.
std::string library_text(std::int32_t kind, std::int32_t version);

/// Which ranks are together, by what all have said: the same on every rank.
struct division {
  /// @param numbers  what texts call the ranks; empty: 0, 1, 2
  explicit division(const std::vector<island_fact>& said, std::span<const int> numbers = {});

  /// In the order of their first ranks; ranks ascending.
  std::vector<std::vector<int>> members;
  std::vector<int> island_of;  ///< by rank
  std::vector<int> place_of;   ///< by rank: which of its island's it is
  /// As many ranks of each island exchange with the others: the size of the smallest.
  int places = 0;
  /// By island: why it cannot use its vendor's library; empty: it can, or needs none.
  std::vector<std::string> why_not;
  /// The least version of those that the ranks have; 0: nobody has one.
  int oldest_library = 0;
  std::string text;

  /// All islands can.
  bool is_native() const noexcept;
};

/// Part `k` of `count` elements cut for so many places.
struct segment {
  std::size_t first = 0, count = 0;
};
segment segment_of(std::size_t count, int places, int k) noexcept;

}  // namespace tandem::detail
