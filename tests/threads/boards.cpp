// Ranks that share a board, each on its own thread as processes would: for ThreadSanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
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

/// Blocked as a process would be: until it is rung, or until it sees at once that all is there.
class sleeping_side : public test::board_side {
 public:
  using board_side::board_side;

  /// Sleeps until a doorbell, as a process would. False: it was never rung. A doorbell may be of an
  /// earlier wait that has ended without it.
  bool sleep_until(std::uint64_t call, std::vector<std::atomic<int>>& doorbells) {
    const std::atomic<int>& own = doorbells[static_cast<std::size_t>(rank())];
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (const std::uint32_t left = missing(call)) {
      const int before = own.load();
      set_blocked(awaited{call, left});
      const bool is_blocked = missing(call) != 0;
      while (is_blocked && own.load() == before) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::yield();
      }
      clear_blocked();
    }
    return true;
  }
  void ring(std::vector<std::atomic<int>>& doorbells) {
    for (const int each : rung) ++doorbells[static_cast<std::size_t>(each)];
    rung.clear();
  }

 private:
  std::uint32_t missing(std::uint64_t call) const {
    std::uint32_t left = 0;
    for (int r = 0; r < ranks; ++r) {
      if (r != rank() && !has(r, call)) left |= std::uint32_t{1} << r;
    }
    return left;
  }
};

/// No wake-up is lost, and each finds all contributions.
TEST(threads, board_wakes_ranks_that_wait_for_all) {
  const test::board_pages memory(ranks);
  std::vector<std::atomic<int>> doorbells(ranks);
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> all;
  for (int r = 0; r < ranks; ++r) {
    all.emplace_back([&, r] {
      sleeping_side mine(memory, r, ranks);
      for (std::uint64_t call = 0; call < calls; ++call) {
        mine.begin(call);
        mine.ring(doorbells);
        while (mine.slot_for(call) == nullptr) std::this_thread::yield();
        mine.contribute(call, value_of(r, call));
        mine.flush_wakeups();
        mine.ring(doorbells);
        if (!mine.sleep_until(call, doorbells)) {
          ++wrong;
          return;
        }
        for (int other = 0; other < ranks; ++other) {
          if (mine.value_of(other, call) != value_of(other, call)) ++wrong;
        }
        mine.end(call);
        mine.ring(doorbells);
      }
    });
  }
  for (std::thread& one : all) one.join();
  EXPECT_EQ(wrong, 0u);
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
