// Ranks that share a board, each on its own thread as processes would: for ThreadSanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support/board_side.hpp"

namespace tandem {
namespace {

constexpr int ranks = 3;
constexpr std::uint64_t calls = 2000;

std::uint64_t value_of(int rank, std::uint64_t call) {
  return call * 10 + static_cast<std::uint64_t>(rank);
}

/// Every rank contributes; in the second half of the calls only rank 0. Returns the error count.
std::uint64_t take_part(const test::board_pages& memory, int rank) {
  test::board_side mine(memory, rank, ranks);
  std::uint64_t wrong = 0;
  for (std::uint64_t call = 0; call < calls; ++call) {
    const int contribute = call < calls / 2 ? ranks : 1;
    mine.begin(call);
    if (rank < contribute) {
      while (mine.slot_for(call) == nullptr) std::this_thread::yield();
      mine.contribute(call, value_of(rank, call));
    }
    for (int r = 0; r < contribute; ++r) {
      while (!mine.has(r, call)) std::this_thread::yield();
      if (mine.value_of(r, call) != value_of(r, call)) ++wrong;
    }
    mine.end(call);
  }
  return wrong;
}

TEST(threads, board_transfers_between_threads) {
  const test::board_pages memory(ranks);
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> all;
  for (int r = 0; r < ranks; ++r) {
    all.emplace_back([&memory, &wrong, r] { wrong += take_part(memory, r); });
  }
  for (std::thread& one : all) one.join();
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace tandem
