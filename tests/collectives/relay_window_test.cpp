// What a relay passes on next, without I/O.
#include "streams/relay_window.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace tandem::detail {
namespace {

/// The slots that begin now.
std::vector<unsigned> begin_all(relay_window& in, std::uint32_t ready) {
  std::vector<unsigned> found;
  while (const auto slot = in.begin_next(ready)) found.push_back(*slot);
  return found;
}
std::vector<unsigned> take_all(relay_window& of) {
  std::vector<unsigned> found;
  while (const auto slot = of.take_ended()) found.push_back(*slot);
  return found;
}

using slots = std::vector<unsigned>;

TEST(RelayWindow, BeginsWhatIsLaunchedAndReady) {
  relay_window of;
  EXPECT_EQ(begin_all(of, 5), slots{});
  EXPECT_FALSE(of.is_waiting());
  of.expect(3);
  EXPECT_TRUE(of.is_waiting());
  EXPECT_EQ(begin_all(of, 0), slots{});
  EXPECT_EQ(begin_all(of, 2), (slots{0, 1}));
  EXPECT_EQ(begin_all(of, 2), slots{});
  EXPECT_EQ(begin_all(of, 9), slots{2});
  EXPECT_FALSE(of.is_waiting());
}

TEST(RelayWindow, BeginsNoMoreThanThereAreSlots) {
  relay_window of;
  of.expect(100);
  slots all(slots_per_block);
  std::iota(all.begin(), all.end(), 0U);
  EXPECT_EQ(begin_all(of, 100), all);
  of.end(1);
  EXPECT_EQ(take_all(of), slots{});
  EXPECT_EQ(begin_all(of, 100), slots{});
  of.end(0);
  EXPECT_EQ(take_all(of), (slots{0, 1}));
  EXPECT_EQ(of.ended(), 2U);
  EXPECT_EQ(begin_all(of, 100), (slots{0, 1}));
  EXPECT_TRUE(of.is_waiting());
}

TEST(RelayWindow, EndsInTheirOrder) {
  relay_window of;
  of.expect(1000);
  std::uint32_t taken = 0;
  while (taken < 1000) {
    const slots begun = begin_all(of, 1000);
    for (auto each = begun.rbegin(); each != begun.rend(); ++each) {
      EXPECT_EQ(take_all(of), slots{});
      of.end(*each);
    }
    EXPECT_EQ(take_all(of), begun);
    taken += static_cast<std::uint32_t>(begun.size());
    EXPECT_EQ(of.ended(), taken);
  }
  EXPECT_FALSE(of.is_waiting());
}

/// Together the pieces of all blocks are the message.
TEST(PieceLengths, OfMessagesOneAfterTheOther) {
  std::vector<piece_lengths> blocks(slot_blocks);
  for (const std::uint32_t bytes : {1U, 8192U, 8193U, 300'001U, 16U, 20'000'000U, 5U}) {
    std::uint64_t all = 0;
    for (unsigned block = 0; block < blocks_for(bytes); ++block) {
      for (unsigned i = 0; i < part_of(bytes, block).pieces(); ++i) {
        const std::size_t length = blocks[block].next({bytes, 0}, block);
        EXPECT_GT(length, 0U);
        EXPECT_LE(length, slot_bytes);
        all += length;
      }
    }
    EXPECT_EQ(all, bytes);
  }
}

/// A peer may send any head.
TEST(PieceLengths, OfAHeadWithoutAPartOfTheBlock) {
  piece_lengths last;
  EXPECT_EQ(last.next({1, 0}, slot_blocks - 1), 0U);
  EXPECT_EQ(last.next({0, 0}, 0), 0U);
}

}  // namespace
}  // namespace tandem::detail
