#include "devices/staging_ring.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tandem::test {
namespace {

using devices::staging_ring;

TEST(StagingRing, AllocatesInOrderWithoutOverlap) {
  staging_ring ring(1024);
  EXPECT_EQ(ring.take(256), 0u);
  EXPECT_EQ(ring.take(1), 256u);
  EXPECT_EQ(ring.take(512), 512u);
  EXPECT_EQ(ring.take(1), std::nullopt);
}

TEST(StagingRing, FreesInAllocationOrder) {
  staging_ring ring(1024);
  const auto first = ring.take(512), second = ring.take(512);
  ring.give_back(*second);
  EXPECT_EQ(ring.take(512), std::nullopt);
  ring.give_back(*first);
  EXPECT_TRUE(ring.is_empty());
  EXPECT_EQ(ring.take(1024), 0u);
}

TEST(StagingRing, WrapsAroundAndSkipsShortEnd) {
  staging_ring ring(1024);
  const auto first = ring.take(512), second = ring.take(256);
  ring.give_back(*first);
  EXPECT_EQ(ring.take(512), 0u);
  EXPECT_EQ(ring.take(256), std::nullopt) << "the end was left out";
  ring.give_back(*second);
  EXPECT_EQ(ring.take(256), 512u);
}

TEST(StagingRing, AllocatesItsFullLength) {
  staging_ring ring(1000);
  EXPECT_EQ(ring.take(1000), 0u);
  EXPECT_EQ(ring.take(1), std::nullopt);
}

TEST(StagingRing, AllocationsNeverOverlapInAnyOrder) {
  std::mt19937 random(7);
  staging_ring ring(16 * 1024);
  struct allocation {
    std::size_t first, bytes;
  };
  std::vector<allocation> allocations;
  std::size_t refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t bytes = 1 + random() % 4096;
    if (const auto first = ring.take(bytes)) {
      ASSERT_LE(*first + bytes, ring.capacity_bytes());
      for (const allocation& each : allocations) {
        ASSERT_TRUE(*first + bytes <= each.first || each.first + each.bytes <= *first);
      }
      allocations.push_back({*first, bytes});
    } else {
      ASSERT_FALSE(allocations.empty()) << "an empty ring has room";
      ++refused;
    }
    while (!allocations.empty() && random() % 2 == 0) {
      const std::size_t which = random() % allocations.size();
      ring.give_back(allocations[which].first);
      allocations.erase(allocations.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }
  EXPECT_GT(refused, 0u);
}

}  // namespace
}  // namespace tandem::test
