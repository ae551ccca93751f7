// Writes of ranks to a board and reads from it, without any waiting.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "support/board_side.hpp"

namespace tandem {
namespace {

using pages = test::board_pages;
using side = test::board_side;

TEST(Board, DeliversContributions) {
  const pages memory(3);
  side a(memory, 0, 3), b(memory, 1, 3), c(memory, 2, 3);
  for (side* each : {&a, &b, &c}) each->begin(0);
  EXPECT_EQ(b.find(0, 0).data, nullptr);
  a.contribute(0, 77);
  for (const side* each : {&b, &c}) {
    EXPECT_EQ(each->value_of(0, 0), 77u);
    EXPECT_EQ(each->find(0, 0).bytes, sizeof(std::uint64_t));
    EXPECT_EQ(each->find(0, 0).signature, (call_signature{0, 0}));
    EXPECT_FALSE(each->has(0, 1));
    EXPECT_FALSE(each->has(0, board::slots_per_rank));
  }
}

TEST(Board, KeepsContributionsUntilRead) {
  const pages memory(3);
  side a(memory, 0, 3), b(memory, 1, 3), c(memory, 2, 3);
  for (std::uint64_t call = 0; call < board::slots_per_rank; ++call) {
    for (side* each : {&a, &b, &c}) each->begin(call);
    a.contribute(call, call);
    a.end(call);
    b.end(call);
  }
  EXPECT_EQ(a.slot_for(board::slots_per_rank), nullptr);
  EXPECT_EQ(a.lagging_rank(), 2);
  // Only the oldest open call counts.
  c.end(1);
  c.end(5);
  EXPECT_EQ(a.slot_for(board::slots_per_rank), nullptr);
  c.end(0);
  EXPECT_NE(a.slot_for(board::slots_per_rank), nullptr);
  EXPECT_NE(a.slot_for(board::slots_per_rank + 1), nullptr);
  EXPECT_EQ(a.slot_for(board::slots_per_rank + 2), nullptr);
}

TEST(Board, SkipsCallsThatDoNotUseIt) {
  const pages memory(2);
  side a(memory, 0, 2), b(memory, 1, 2);
  for (const std::uint64_t call :
       std::initializer_list<std::uint64_t>{3, 900, 900 + board::slots_per_rank, 5000}) {
    a.begin(call);
    b.begin(call);
    a.contribute(call, call);
    EXPECT_EQ(b.value_of(0, call), call);
    a.end(call);
    b.end(call);
  }
}

TEST(Board, RingsBlockedRanksOnce) {
  const pages memory(3);
  side a(memory, 0, 3), b(memory, 1, 3), c(memory, 2, 3);
  for (side* each : {&a, &b, &c}) each->begin(0);
  b.set_blocked();
  a.contribute(0, 1);
  EXPECT_TRUE(a.rung.empty()) << "before it waits or ends the call";
  a.flush_wakeups();
  EXPECT_EQ(a.rung, std::vector<int>{1});
  c.contribute(0, 1);
  c.flush_wakeups();
  EXPECT_TRUE(c.rung.empty());
  // Also when waiting for a free slot.
  a.set_blocked();
  c.set_blocked();
  c.clear_blocked();
  b.end(0);
  EXPECT_EQ(b.rung, std::vector<int>{0});
}

/// A rank that waits for all is rung by the last of them only.
TEST(Board, RingsWhenTheLastRankHasContributed) {
  const pages memory(4);
  side a(memory, 0, 4), b(memory, 1, 4), c(memory, 2, 4), d(memory, 3, 4);
  for (side* each : {&a, &b, &c, &d}) each->begin(0);
  a.contribute(0, 1);
  a.flush_wakeups();
  a.set_blocked(board::awaited{0, 0b1110});
  c.contribute(0, 1);
  c.flush_wakeups();
  b.contribute(0, 1);
  b.flush_wakeups();
  EXPECT_TRUE(b.rung.empty());
  EXPECT_TRUE(c.rung.empty());
  d.contribute(0, 1);
  d.flush_wakeups();
  EXPECT_EQ(d.rung, std::vector<int>{0});
  d.end(0);
  EXPECT_EQ(d.rung, std::vector<int>{0}) << "once";
}

TEST(Board, ContributionsToOtherCallsDoNotRing) {
  const pages memory(2);
  side a(memory, 0, 2), b(memory, 1, 2);
  for (side* each : {&a, &b}) {
    each->begin(0);
    each->begin(1);
  }
  a.set_blocked(board::awaited{1, 0b10});
  b.contribute(0, 1);
  b.end(0);
  EXPECT_TRUE(b.rung.empty());
  b.contribute(1, 1);
  b.flush_wakeups();
  EXPECT_EQ(b.rung, std::vector<int>{0});
}

/// Those that have contributed before it is marked as blocked do not ring it.
TEST(Board, WaitsForThoseThatAreMissingOnly) {
  const pages memory(3);
  side a(memory, 0, 3), b(memory, 1, 3), c(memory, 2, 3);
  for (side* each : {&a, &b, &c}) each->begin(0);
  b.contribute(0, 1);
  b.flush_wakeups();
  a.set_blocked(board::awaited{0, 0b110});
  c.contribute(0, 1);
  c.flush_wakeups();
  EXPECT_EQ(c.rung, std::vector<int>{0});
}

TEST(Board, OnlyTheRootRingsThoseThatWaitForIt) {
  const pages memory(3);
  side a(memory, 0, 3), b(memory, 1, 3), c(memory, 2, 3);
  for (side* each : {&a, &b, &c}) each->begin(5);
  a.set_blocked(board::awaited{5, 0b100});
  b.contribute(5, 1);
  b.end(5);
  EXPECT_TRUE(b.rung.empty());
  c.contribute(5, 1);
  c.flush_wakeups();
  EXPECT_EQ(c.rung, std::vector<int>{0});
}

/// When the loop blocks, the end of a call rings the blocked ranks that it sees; a rank that blocks
/// just then is found by the next poll of the loop or with the next call.
TEST(Board, RingsAgainWhenLoopBlocks) {
  const pages memory(2);
  side a(memory, 0, 2), b(memory, 1, 2);
  a.has_loop = true;
  for (side* each : {&a, &b}) each->begin(0);
  a.contribute(0, 1);
  a.end(0);
  EXPECT_TRUE(a.rung.empty());
  b.set_blocked();
  a.flush_wakeups();
  EXPECT_EQ(a.rung, std::vector<int>{1});
  b.end(0);
  a.begin(1);
  a.contribute(1, 1);
  b.set_blocked();
  a.end(1);
  EXPECT_EQ(a.rung, (std::vector<int>{1, 1}));
  b.set_blocked();
  a.begin(2);
  EXPECT_EQ(a.rung, (std::vector<int>{1, 1, 1}));
  b.set_blocked();
  a.flush_wakeups();
  EXPECT_EQ(a.rung.size(), 3u) << "nothing was written since";
}

/// Random ranks take random steps: each contributes, reads all others and ends the call; several
/// calls are open at once.
TEST(Board, AnyOrderOfStepsDeliversAllContributions) {
  constexpr int ranks = 3;
  constexpr std::uint64_t calls = 300, ahead = 40;
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const pages memory(ranks);
    std::vector<std::unique_ptr<side>> sides;
    for (int r = 0; r < ranks; ++r) sides.push_back(std::make_unique<side>(memory, r, ranks));
    struct progress {
      std::uint64_t begun = 0, contribution = 0;
      std::vector<std::uint64_t> open;
    };
    std::vector<progress> at(ranks);
    const auto value = [](int r, std::uint64_t call) { return call * 10 + unsigned(r); };
    std::size_t finished = 0, steps = 0;
    while (finished < calls * ranks) {
      ASSERT_LT(++steps, 1000000u) << "no progress";
      const auto i = random() % ranks;
      progress& p = at[i];
      side& mine = *sides[i];
      const std::uint64_t oldest =
          p.open.empty() ? p.begun : *std::min_element(p.open.begin(), p.open.end());
      if (random() % 3 == 0 && p.begun < calls && p.begun < oldest + ahead) {
        mine.begin(p.begun);
        p.open.push_back(p.begun++);
      } else if (random() % 2 == 0 && p.contribution < p.begun) {
        if (mine.slot_for(p.contribution) == nullptr) continue;
        mine.contribute(p.contribution, value(static_cast<int>(i), p.contribution));
        ++p.contribution;
      } else if (!p.open.empty()) {
        const std::size_t which = random() % p.open.size();
        const std::uint64_t call = p.open[which];
        bool all = call < p.contribution;
        for (int r = 0; r < ranks; ++r) all = all && mine.has(r, call);
        if (!all) continue;
        for (int r = 0; r < ranks; ++r) ASSERT_EQ(mine.value_of(r, call), value(r, call));
        mine.end(call);
        p.open.erase(p.open.begin() + static_cast<std::ptrdiff_t>(which));
        ++finished;
      }
    }
  }
}

TEST(Board, HostileContentGivesWrongDataOnly) {
  const pages memory(2);
  side a(memory, 0, 2);
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    // All of the memory, including the other rank's part.
    for (std::size_t i = 0; i < memory.size(); i += 61) {
      memory.data()[i] = static_cast<std::byte>(random());
    }
    const std::uint64_t call = random() % 100;
    a.begin(call);
    if (std::byte* const at = a.slot_for(call)) {
      EXPECT_GE(at, memory.data());
      EXPECT_LE(at + board::max_bytes, memory.data() + memory.size());
      a.publish(call, {1, 2}, 8);
    }
    const board::contribution there = a.find(1, call);
    if (there.data != nullptr) {
      EXPECT_LE(there.data + board::max_bytes, memory.data() + memory.size());
    }
    a.end(call);
  }
}

}  // namespace
}  // namespace tandem
