// Reports of calls of a vendor's library between ranks.
#include "islands/library_watch.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <tandem/collectives.hpp>

#include "collectives/job.hpp"

namespace tandem::detail {
namespace {

using std::chrono::milliseconds;
using test::job;

constexpr int limit_of_steps = 500;

/// Ranks on channels in memory, each with a watch whose neighbours are all other ranks.
class watched_job {
 public:
  explicit watched_job(int count, bool has_one_queue = true)
      : ranks(count), failures(static_cast<std::size_t>(count)) {
    for (int rank = 0; rank < count; ++rank) {
      std::vector<int> others;
      for (int other = 0; other < count; ++other) {
        if (other != rank) others.push_back(other);
      }
      const std::shared_ptr<group>& in = ranks.world(rank).internals();
      const auto queue = static_cast<std::uint64_t>(has_one_queue ? 7 : rank);
      const auto failed = [this, rank](const error& why) {
        auto& failure = failures[static_cast<std::size_t>(rank)];
        EXPECT_FALSE(failure) << "once";
        failure = why;
      };
      watches.push_back(std::make_shared<library_watch>(
          in, others, queue, in->flow(group::watch_tag::library), failed));
      watches.back()->start();
    }
  }
  ~watched_job() { stop(); }
  watched_job(const watched_job&) = delete;
  watched_job& operator=(const watched_job&) = delete;

  void stop() {
    for (const auto& each : watches) each->stop();
  }
  library_log& calls(int rank) { return watches[static_cast<std::size_t>(rank)]->calls(); }
  /// The first failure that a watch has reported.
  const error* failure() const {
    for (const auto& each : failures) {
      if (each) return &*each;
    }
    return nullptr;
  }
  /// Runs until a failure, and for so long at most.
  void run(milliseconds at_most) {
    const auto end = std::chrono::steady_clock::now() + at_most;
    while (failure() == nullptr && ranks.context.run_one_until(end) > 0) {
    }
  }

  job ranks;
  std::vector<std::optional<error>> failures;
  std::vector<std::shared_ptr<library_watch>> watches;
};

call_record broadcast_of(std::size_t bytes) {
  return {collective::broadcast, by_islands, bytes, 0};
}

TEST(LibraryWatch, IsSilentWhileCallsAgree) {
  watched_job all(3);
  for (int call = 1; call < 4; ++call) {
    for (int rank = 0; rank < 3; ++rank) {
      for (int i = 0; i < 100 * call; ++i) all.calls(rank).add(broadcast_of(8));
      all.run(milliseconds(100));
    }
  }
  all.run(milliseconds(700));
  EXPECT_EQ(all.failure(), nullptr) << all.failure()->what();
  EXPECT_EQ(all.calls(0).missing_text(), "");
}

TEST(LibraryWatch, ADifferenceEndsTheJob) {
  watched_job all(3);
  for (int rank = 0; rank < 3; ++rank) {
    all.calls(rank).add(broadcast_of(8));
    all.calls(rank).add(broadcast_of(rank == 2 ? 4 : 16));
  }
  all.run(std::chrono::seconds(10));
  ASSERT_NE(all.failure(), nullptr);
  EXPECT_EQ(all.failure()->code(), errc::call_mismatch);
  const std::string text = all.failure()->what();
  for (const char* const each : {"broadcast of 16 bytes", "broadcast of 4 bytes", "rank 2"})
    EXPECT_NE(text.find(each), std::string::npos) << text;
  // Every rank, with the same reason.
  all.stop();
  EXPECT_NE(all.ranks.run([&](int r) { return barrier(all.ranks.world(r)); }), "hangs");
  for (int r = 0; r < 3; ++r) EXPECT_EQ(all.ranks.code(r), errc::call_mismatch) << r;
}

TEST(LibraryWatch, ALateRankEndsTheJob) {
  watched_job all(2);
  all.watches[0]->set_time_limit(milliseconds(500));
  all.calls(0).add(broadcast_of(8));
  all.calls(1).add(broadcast_of(8));
  all.run(milliseconds(700));
  EXPECT_EQ(all.failure(), nullptr) << all.failure()->what();
  all.calls(0).add(broadcast_of(8));
  all.run(std::chrono::seconds(10));
  ASSERT_NE(all.failure(), nullptr);
  EXPECT_EQ(all.failure()->code(), errc::timed_out);
  EXPECT_EQ(all.failure()->context().peer, 1);
  EXPECT_NE(std::string(all.failure()->what()).find("rank 1 has made 1 of 2 collectives after 0.5"),
            std::string::npos)
      << all.failure()->what();
}

/// Reports of an earlier communicator of the library may still be on their way.
TEST(LibraryWatch, ReportsOfAnotherQueueAreIgnored) {
  watched_job all(2, false);
  all.calls(0).add(broadcast_of(8));
  all.calls(1).add(broadcast_of(4));
  all.run(milliseconds(800));
  EXPECT_EQ(all.failure(), nullptr) << all.failure()->what();
}

/// The watches and the ranks end after every possible step, in two orders.
TEST(LibraryWatch, StopsAfterEachStep) {
  for (int steps = 0; steps < limit_of_steps; ++steps) {
    watched_job all(2);
    for (int rank = 0; rank < 2; ++rank) {
      all.calls(rank).add(broadcast_of(rank == 0 ? 4 : 8));
      all.calls(rank).add_send(1 - rank, 8);
    }
    for (int step = 0; step < steps && all.failure() == nullptr; ++step) {
      ASSERT_EQ(all.ranks.context.run_one_for(std::chrono::seconds(10)), 1U);
    }
    const bool is_over = all.failure() != nullptr;
    all.stop();
    if (steps % 2 == 0) all.watches.clear();
    all.ranks.worlds.clear();
    all.ranks.fabrics.clear();
    all.ranks.context.restart();
    all.ranks.context.poll();
    if (is_over) return;
  }
  FAIL() << "it never ends";
}

}  // namespace
}  // namespace tandem::detail
