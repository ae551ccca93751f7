// Division of ranks into islands, and why an island cannot use its vendor's library.

#include "islands/division.hpp"

#include <gtest/gtest.h>

namespace tandem::detail {
namespace {

island_fact fact(memory_kind kind, int device, int library = 22803, int colour = 0) {
  island_fact made;
  made.kind = static_cast<std::int32_t>(kind);
  made.colour = colour;
  made.library = library;
  made.uuid[0] = static_cast<char>('a' + device);
  made.uuid[1] = kind == memory_kind::hip ? 'h' : 'c';
  return made;
}

constexpr memory_kind cuda = memory_kind::cuda, hip = memory_kind::hip;

TEST(division, groups_ranks_by_vendor_in_any_numbering) {
  const division d({fact(cuda, 0), fact(hip, 0, 22203), fact(cuda, 1), fact(hip, 1, 22203),
                    fact(hip, 2, 22203)});
  EXPECT_EQ(d.members, (std::vector<std::vector<int>>{{0, 2}, {1, 3, 4}}));
  EXPECT_EQ(d.island_of, (std::vector<int>{0, 1, 0, 1, 1}));
  EXPECT_EQ(d.local_rank_of, (std::vector<int>{0, 0, 1, 1, 2}));
  EXPECT_EQ(d.leader_count, 2);
  EXPECT_EQ(d.min_library_version, 22203);
  EXPECT_TRUE(d.can_use_libraries());
  EXPECT_EQ(d.text,
            "2 islands: cuda (ranks 0, 2) by NCCL 2.28.3, hip (ranks 1, 3, 4) by RCCL 2.22.3");
}

TEST(division, separates_colours) {
  const division d({fact(cuda, 0, 22803, 0), fact(cuda, 1, 22803, 0), fact(cuda, 0, 22803, 1),
                    fact(cuda, 1, 22803, 1)});
  EXPECT_EQ(d.members, (std::vector<std::vector<int>>{{0, 1}, {2, 3}}));
  EXPECT_TRUE(d.can_use_libraries()) << "the same devices on different islands are fine";
}

TEST(division, single_rank_needs_no_library) {
  const division d({fact(cuda, 0), fact(cuda, 1), fact(hip, 0, 0)});
  EXPECT_TRUE(d.can_use_libraries());
  EXPECT_EQ(d.leader_count, 1);
  EXPECT_EQ(d.min_library_version, 22803);
  EXPECT_EQ(d.text, "2 islands: cuda (ranks 0, 1) by NCCL 2.28.3, hip (rank 2)");
}

TEST(division, explains_why_a_library_is_unusable) {
  const division none({fact(cuda, 0), fact(cuda, 1, 0)});
  EXPECT_FALSE(none.can_use_libraries());
  EXPECT_EQ(none.text, "1 island: cuda (ranks 0, 1) by Tandem, because rank 1 has no NCCL");
  const division versions({fact(hip, 0, 22203), fact(hip, 1, 22105)});
  EXPECT_EQ(versions.fallback_reason[0], "RCCL is 2.22.3 on rank 0 and 2.21.5 on rank 1");
  const division shared({fact(cuda, 0), fact(cuda, 1), fact(cuda, 0)});
  EXPECT_EQ(shared.fallback_reason[0], "ranks 0 and 2 share a device");
}

TEST(segment_of, covers_every_element_once) {
  for (const std::size_t count : {0U, 1U, 6U, 7U, 1000001U}) {
    for (int leader_count = 1; leader_count <= 9; ++leader_count) {
      std::size_t next = 0, longest = 0, shortest = count;
      for (int k = 0; k < leader_count; ++k) {
        const segment s = segment_of(count, leader_count, k);
        EXPECT_EQ(s.first, next);
        next += s.count;
        longest = std::max(longest, s.count);
        shortest = std::min(shortest, s.count);
      }
      EXPECT_EQ(next, count);
      EXPECT_LE(longest - shortest, 1U);
    }
  }
}

}  // namespace
}  // namespace tandem::detail
