#include "islands/routes.hpp"

#include <utility>

namespace tandem::detail {

routes::routes(const division& d) : of_(d) {}

std::size_t routes::slots_of(std::size_t island, int leader_index) const noexcept {
  const auto leader_count = static_cast<std::size_t>(of_.leader_count);
  return (of_.members[island].size() - static_cast<std::size_t>(leader_index) + leader_count - 1) /
         leader_count;
}

std::size_t routes::slot(int rank) const noexcept {
  const auto island = static_cast<std::size_t>(of_.island_of[static_cast<std::size_t>(rank)]);
  std::size_t before = 0;
  for (std::size_t i = 0; i < island; ++i) before += slots_of(i, leader(rank));
  return before + static_cast<std::size_t>(local_rank_of(rank) / of_.leader_count);
}

std::size_t routes::slots(int leader_index) const noexcept {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < of_.members.size(); ++i) sum += slots_of(i, leader_index);
  return sum;
}

std::vector<std::size_t> routes::slots_by_island(int leader_index) const {
  std::vector<std::size_t> each;
  for (std::size_t i = 0; i < of_.members.size(); ++i) each.push_back(slots_of(i, leader_index));
  return each;
}

std::vector<int> routes::followers(int island, int leader_index) const {
  std::vector<int> found;
  for (const int rank : of_.members[static_cast<std::size_t>(island)]) {
    if (local_rank_of(rank) != leader_index && leader(rank) == leader_index) found.push_back(rank);
  }
  return found;
}

bool routes::is_in_order() const noexcept {
  const auto ranks = static_cast<int>(of_.island_of.size());
  for (int rank = 0; rank < ranks; ++rank) {
    if (leader(rank) != 0 || slot(rank) != static_cast<std::size_t>(rank)) return false;
  }
  return true;
}

blocks routes::blocks_outside(int rank, std::size_t block_bytes) const {
  std::vector<extent> each;
  for (std::size_t other = 0; other < of_.island_of.size(); ++other) {
    const bool is_outside = of_.island_of[other] != of_.island_of[static_cast<std::size_t>(rank)];
    each.push_back({other * block_bytes, is_outside ? block_bytes : 0});
  }
  return blocks(std::move(each));
}

}  // namespace tandem::detail
