#include "transports/shm/memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <tandem/async.hpp>

namespace tandem::shm {
namespace {

constexpr std::size_t mega = std::size_t{1} << 20;

TEST(ring_bytes, match_the_setting) {
  for (const int ranks : {0, 2, 1000}) {
    EXPECT_EQ(ring_bytes_for(64 * 1024, ranks), 64U * 1024);
    EXPECT_EQ(ring_bytes_for(8 * mega, ranks), 8 * mega);
  }
}

TEST(ring_bytes, are_powers_of_two_within_the_total) {
  for (const int ranks : {0, 1, 2, 3, 4, 8, 63, 64, 65, 100, 128, 1000}) {
    const std::size_t bytes = ring_bytes_for(0, ranks);
    EXPECT_TRUE(std::has_single_bit(bytes)) << ranks;
    EXPECT_LE(bytes, 4 * mega) << ranks;
    const int cores = cores_for_loops();
    if (cores > 0 && ranks > cores) {
      EXPECT_EQ(bytes, mega) << ranks;
    } else {
      EXPECT_LE(bytes * static_cast<std::size_t>(ranks), 64 * mega) << ranks;
    }
  }
}

TEST(ring_bytes, exceed_the_cache_for_two_ranks) {
  if (cores_for_loops() < 2) GTEST_SKIP() << "two ranks share a core here";
  const std::size_t bytes = ring_bytes_for(0, 2);
  EXPECT_GE(bytes, mega);
  const long cache = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (cache > 0 && static_cast<std::size_t>(cache) < 4 * mega) {
    EXPECT_GT(bytes, static_cast<std::size_t>(cache));
  }
  EXPECT_EQ(ring_bytes_for(0, 0), ring_bytes_for(0, 2)) << "a pair of no job";
}

}  // namespace
}  // namespace tandem::shm
