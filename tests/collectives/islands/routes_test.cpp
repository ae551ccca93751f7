// Which rank carries which block between islands.

#include "islands/routes.hpp"

#include <gtest/gtest.h>

#include <set>

namespace tandem::detail {
namespace {

division divided(const std::vector<int>& colours) {
  std::vector<island_fact> known(colours.size());
  for (std::size_t r = 0; r < colours.size(); ++r) {
    known[r].colour = colours[r];
    known[r].library = 22803;
    known[r].uuid[0] = static_cast<char>('a' + r);
  }
  return division(known);
}

using lengths = std::vector<std::size_t>;

TEST(routes, distribute_blocks_over_smallest_island) {
  const division d = divided({0, 1, 0, 1, 0});  // ranks 0, 2, 4 and 1, 3
  const routes route(d);
  EXPECT_EQ(route.leader(4), 0);
  EXPECT_EQ(route.leader(2), 1);
  EXPECT_EQ(route.slots(0), 3U);  // of ranks 0, 4 and 1
  EXPECT_EQ(route.slots(1), 2U);
  EXPECT_EQ(route.slot(0), 0U);
  EXPECT_EQ(route.slot(4), 1U);
  EXPECT_EQ(route.slot(1), 2U);
  EXPECT_EQ(route.slots_by_island(0), (lengths{2, 1}));
  EXPECT_EQ(route.slots_by_island(1), (lengths{1, 1}));
  EXPECT_EQ(route.followers(0, 0), std::vector<int>{4});
  EXPECT_TRUE(route.followers(0, 1).empty());
  EXPECT_FALSE(route.is_in_order());
}

TEST(routes, keep_order_of_consecutive_ranks) {
  const division apart = divided({0, 1, 2});
  EXPECT_TRUE(routes(apart).is_in_order());
  const division uneven = divided({0, 0, 0, 1});
  EXPECT_TRUE(routes(uneven).is_in_order());
  EXPECT_EQ(routes(uneven).followers(0, 0), (std::vector<int>{1, 2}));
  const division mixed = divided({0, 1, 0}), square = divided({0, 0, 1, 1});
  EXPECT_FALSE(routes(mixed).is_in_order());
  EXPECT_FALSE(routes(square).is_in_order());
}

TEST(routes, give_every_block_its_own_slot) {
  for (const std::vector<int>& colours :
       std::vector<std::vector<int>>{{0}, {0, 0, 0}, {0, 1, 2, 0, 2}, {0, 1, 1, 0, 0, 1, 1, 1}}) {
    const division d = divided(colours);
    const routes route(d);
    std::set<std::pair<int, std::size_t>> taken;
    std::size_t all = 0;
    for (int leader_index = 0; leader_index < d.leader_count; ++leader_index) {
      all += route.slots(leader_index);
      std::size_t next = 0;
      for (std::size_t i = 0; i < d.members.size(); ++i) {
        const std::size_t own = route.slots_by_island(leader_index)[i];
        const std::vector<int> followers = route.followers(static_cast<int>(i), leader_index);
        EXPECT_EQ(own, 1 + followers.size());
        EXPECT_EQ(route.slot(d.members[i][static_cast<std::size_t>(leader_index)]), next);
        for (std::size_t k = 0; k < followers.size(); ++k)
          EXPECT_EQ(route.slot(followers[k]), next + 1 + k);
        next += own;
      }
    }
    EXPECT_EQ(all, colours.size());
    for (int r = 0; r < static_cast<int>(colours.size()); ++r) {
      EXPECT_LT(route.slot(r), route.slots(route.leader(r)));
      EXPECT_TRUE(taken.emplace(route.leader(r), route.slot(r)).second);
    }
  }
}

TEST(routes, cross_only_between_islands) {
  const division d = divided({0, 1, 0});
  const blocks from_first = routes(d).blocks_outside(0, 100);
  for (const int own : {0, 2}) EXPECT_EQ(from_first.bytes(own), 0U);
  EXPECT_EQ(from_first.bytes(1), 100U);
  EXPECT_EQ(from_first.offset(1), 100U);
}

}  // namespace
}  // namespace tandem::detail
