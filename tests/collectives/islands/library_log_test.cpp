// What ranks know of each other's calls of their vendor's library.
#include "islands/library_log.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <tuple>

namespace tandem::detail {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using clock = library_log::clock;

call_record reduced(std::size_t bytes) {
  return {collective::all_reduce, by_islands, bytes, data_type::float32, reduce_op::sum};
}

/// The ranks 0, 1 and 2 of a group, which are 10, 11 and 12 of the job.
class LibraryLog : public testing::Test {
 protected:
  /// What differs, once `to` has the other's calls.
  std::string report(int from, int to, milliseconds at = {}) {
    const auto next = at_rank(from).next_report(to);
    if (!next) return "nothing new";
    return at_rank(to).take(from, *next, start + at).value_or("");
  }
  library_log& at_rank(int rank) { return rank == 0 ? zero : one; }

  const clock::time_point start = clock::now();
  library_log zero{0, {10, 11, 12}, std::array{1}};
  library_log one{1, {10, 11, 12}, std::array{0}};
};

TEST_F(LibraryLog, ReportsOnlyWhatIsNew) {
  EXPECT_EQ(report(0, 1), "nothing new");
  zero.add(reduced(8));
  EXPECT_EQ(report(0, 1), "");
  EXPECT_EQ(report(0, 1), "nothing new");
  zero.add_send(1, 4);
  EXPECT_EQ(report(0, 1), "");
  zero.add_send(2, 4);
  EXPECT_EQ(report(0, 1), "nothing new") << "a message to another rank";
  zero.add_receive(1, 4);
  EXPECT_EQ(report(0, 1), "");
}

TEST_F(LibraryLog, NamesBothCalls) {
  zero.add(reduced(8));
  one.add(reduced(8));
  zero.add(reduced(16));
  one.add({collective::broadcast, by_islands, 16, 2});
  EXPECT_EQ(report(0, 1),
            "rank 11 calls broadcast of 16 bytes with root 2 (islands), rank 10 all_reduce of 16 "
            "bytes (islands, float32, sum)");
  EXPECT_EQ(report(1, 0),
            "rank 10 calls all_reduce of 16 bytes (islands, float32, sum), rank 11 broadcast of 16 "
            "bytes with root 2 (islands)");
}

TEST_F(LibraryLog, NamesBothMessages) {
  zero.add_send(1, 8);
  one.add_receive(0, 8);
  one.add_send(0, 1);
  zero.add_receive(1, 1);
  EXPECT_EQ(report(0, 1), "");
  EXPECT_EQ(report(1, 0), "");
  zero.add_send(1, 8);
  one.add_receive(0, 9);
  EXPECT_EQ(report(0, 1),
            "rank 11 receives message 2 of 9 bytes, rank 10 sends message 2 of 8 bytes");
  EXPECT_EQ(report(1, 0),
            "rank 10 sends message 2 of 8 bytes, rank 11 receives message 2 of 9 bytes");
}

/// In either order, and with another number of calls in between.
TEST_F(LibraryLog, CollectivesAndMessagesAreApart) {
  zero.add_send(1, 8);
  zero.add(reduced(8));
  one.add(reduced(8));
  one.add_receive(0, 8);
  zero.add_receive(2, 77);
  EXPECT_EQ(report(0, 1), "");
  EXPECT_EQ(report(1, 0), "");
}

/// A stream may be ahead by thousands of calls.
TEST_F(LibraryLog, FindsADifferenceManyCallsBefore) {
  for (int i = 0; i < 4000; ++i) zero.add(reduced(8));
  for (int i = 0; i < 60; ++i) one.add(reduced(8));
  EXPECT_EQ(report(1, 0), "");
  EXPECT_EQ(report(0, 1), "");
  one.add(reduced(9));
  EXPECT_NE(report(1, 0).find("all_reduce of 9 bytes"), std::string::npos);
}

TEST_F(LibraryLog, FindsADifferenceThatIsNoLongerInTheLog) {
  zero.add(reduced(8));
  one.add(reduced(9));
  for (int i = 0; i < 100; ++i) {
    zero.add(reduced(8));
    one.add(reduced(8));
  }
  EXPECT_EQ(report(1, 0),
            "before this all_reduce of 8 bytes (islands, float32, sum), ranks 10 and 11 made other "
            "calls");
}

TEST_F(LibraryLog, ARankThatMakesNoCallsIsLate) {
  const milliseconds limit(2000);
  zero.add(reduced(8));
  one.add(reduced(8));
  report(1, 0);
  EXPECT_FALSE(zero.find_late(limit, start));
  EXPECT_EQ(zero.missing_text(1), "");
  zero.add(reduced(8));
  EXPECT_FALSE(zero.find_late(limit, start + milliseconds(500))) << "it is behind since then";
  EXPECT_FALSE(zero.find_late(limit, start + milliseconds(2499)));
  EXPECT_EQ(zero.find_late(limit, start + milliseconds(2500)), 1);
  EXPECT_EQ(zero.missing_text(1), "rank 11 has made 1 of 2 collectives");
}

TEST_F(LibraryLog, ARankThatStillMakesCallsIsNotLate) {
  const milliseconds limit(2000);
  for (int i = 0; i < 5; ++i) zero.add(reduced(8));
  for (int second = 1; second < 5; ++second) {
    one.add(reduced(8));
    EXPECT_EQ(report(1, 0, seconds(second)), "");
    EXPECT_FALSE(zero.find_late(limit, start + milliseconds(1000 * second + 1999)));
  }
  EXPECT_EQ(zero.find_late(limit, start + seconds(6)), 1);
  one.add(reduced(8));
  EXPECT_EQ(report(1, 0, seconds(6)), "");
  EXPECT_NE(zero.find_late(limit, start + seconds(100)), 1) << "it has made all of them";
}

TEST_F(LibraryLog, ARankThatHasNeverReportedHasMoreTime) {
  const milliseconds limit(2000);
  zero.add(reduced(8));
  EXPECT_FALSE(zero.find_late(limit, start));
  EXPECT_FALSE(zero.find_late(limit, start + milliseconds(2999)));
  EXPECT_EQ(zero.find_late(limit, start + seconds(3)), 1);
}

TEST_F(LibraryLog, MessagesAreLateInEitherDirection) {
  const milliseconds limit(2000);
  one.add(reduced(8));
  zero.add(reduced(8));
  report(1, 0);
  zero.add_receive(1, 8);
  zero.add_send(1, 8);
  zero.add_send(1, 8);
  zero.add_send(2, 8);
  EXPECT_FALSE(zero.find_late(limit, start));
  EXPECT_EQ(zero.find_late(limit, start + limit), 1);
  EXPECT_EQ(zero.missing_text(1),
            "rank 11 has made 0 of 2 receives from this rank, 0 of 1 sends to this rank");
  EXPECT_EQ(zero.missing_text(),
            zero.missing_text(1) +
                ", rank 12 has made 0 of 1 collectives, 0 of 1 receives from this rank");
}

/// The peers are those that it was made with, and those that it has messages with.
TEST_F(LibraryLog, Peers) {
  library_log of_five(2, {0, 1, 2, 3, 4}, std::array{1, 3});
  EXPECT_EQ(of_five.peers(), (std::vector<int>{1, 3}));
  of_five.add_send(4, 1);
  of_five.add_receive(0, 1);
  EXPECT_EQ(of_five.peers(), (std::vector<int>{0, 1, 3, 4}));
}

TEST_F(LibraryLog, ArbitraryReports) {
  std::mt19937_64 random(1);
  zero.add(reduced(8));
  zero.add_send(1, 8);
  for (int i = 0; i < 1000; ++i) {
    std::array<std::uint64_t, sizeof(library_report) / 8> bits{};
    for (std::uint64_t& each : bits) each = random() >> (random() % 64);
    library_report report;
    std::memcpy(static_cast<void*>(&report), bits.data(), sizeof report);
    std::ignore = zero.take(1, report, start);
    std::ignore = zero.missing_text();
  }
}

}  // namespace
}  // namespace tandem::detail
