// Short calls of ranks that share memory: which of them use a board, and how waiting calls end.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <tandem/async.hpp>
#include <tandem/collectives.hpp>
#include <tandem/communicator.hpp>
#include <tandem/detail/board.hpp>
#include <tandem/detail/board_sharing.hpp>
#include <tandem/plan.hpp>

#include "collectives/every_call.hpp"
#include "collectives/job.hpp"

namespace tandem {
namespace {

using test::job;
using test::nothing;

const test::fabric_kind& kind(const std::string& name) {
  return *std::ranges::find(test::fabric_kinds(), name, &test::fabric_kind::name);
}

settings usual() {
  settings s;
  s.collective_chunk_bytes = 1024;
  return s;
}

/// The calls that use a board, by their sequence numbers.
std::vector<int> board_calls() {
  std::vector<int> found;
  for (int which = 0; which < test::every_call::count(); ++which) {
    if (test::every_call::name(which).ends_with("by board")) found.push_back(which);
  }
  return found;
}

/// The plans agreed by the world and by a part of it.
struct agreement {
  std::optional<plan> full, part;
};

asio::awaitable<void> agree(fabric& over, settings options, int colour, agreement& found) {
  communicator all = co_await make_communicator(over, options);
  const std::unique_ptr<communicator> part = co_await all.split(colour, 0);
  found.full = all.agreed();
  found.part = part->agreed();
  std::vector<std::int32_t> ones(8, 1);
  const mutable_view data(ones);
  co_await all_reduce(*part, data, data_type::int32, reduce_op::sum);
  co_await barrier(all);
  for (const std::int32_t sum : ones) EXPECT_EQ(sum, part->size());
}

/// Four ranks in two colours of two.
std::vector<agreement> agreements(const std::string& over, const std::string& pins = {}) {
  job ranks(kind(over), 4, usual());
  std::vector<agreement> found(4);
  EXPECT_EQ(ranks.run([&](int r) {
    settings options = usual();
    options.plan = pins;
    if (over == "mixed") options.host = r < 2 ? "first" : "second";
    const auto i = static_cast<std::size_t>(r);
    return agree(*ranks.fabrics[i], std::move(options), r / 2, found[i]);
  }),
            "");
  return found;
}

TEST(BoardPlan, UsesBoardForShortCallsInSharedMemory) {
  for (const agreement& of : agreements("shm")) {
    for (const plan& one : {*of.full, *of.part}) {
      EXPECT_TRUE(one.known().has_board);
      for (const collective what :
           {collective::barrier, collective::broadcast, collective::reduce, collective::all_reduce,
            collective::all_gather, collective::reduce_scatter, collective::all_to_all}) {
        EXPECT_EQ(one.choose(what, 8).how, algorithm::board) << name(what);
        if (what == collective::barrier) continue;
        EXPECT_NE(one.choose(what, board::max_bytes).how, algorithm::board) << name(what);
      }
      EXPECT_NE(one.choose(collective::gather, 8).how, algorithm::board);
    }
  }
}

TEST(BoardPlan, UsesBoardForGroupsOnOneHost) {
  for (const agreement& of : agreements("mixed")) {
    EXPECT_FALSE(of.full->known().has_board);
    EXPECT_NE(of.full->choose(collective::all_reduce, 8).how, algorithm::board);
    EXPECT_TRUE(of.part->known().has_board);
    EXPECT_EQ(of.part->choose(collective::all_reduce, 8).how, algorithm::board);
  }
}

TEST(BoardPlan, LimitsBoardToFewRanksOfOneHost) {
  const std::vector<std::string> many(static_cast<std::size_t>(board::max_ranks), "one");
  std::vector<std::string> more(many);
  more.push_back("one");
  EXPECT_TRUE(may_share_board("shm", many));
  EXPECT_TRUE(may_share_board("mixed", many));
  EXPECT_FALSE(may_share_board("tcp", many));
  EXPECT_FALSE(may_share_board("devices", many));
  EXPECT_FALSE(may_share_board("shm", more));
  EXPECT_FALSE(may_share_board("shm", std::vector<std::string>{"one"}));
  EXPECT_FALSE(may_share_board("shm", std::vector<std::string>{"one", "other", "one"}));
}

TEST(BoardPlan, UsesNoBoardOverSockets) {
  for (const agreement& of : agreements("tcp")) {
    EXPECT_FALSE(of.full->known().has_board);
    EXPECT_FALSE(of.part->known().has_board);
  }
}

TEST(BoardPlan, FollowsPins) {
  for (const agreement& of : agreements("shm", "all_reduce=ring,broadcast:1M-=board")) {
    EXPECT_EQ(of.full->choose(collective::all_reduce, 8).how, algorithm::ring);
    EXPECT_EQ(of.full->choose(collective::broadcast, 1u << 20).how, algorithm::board);
    EXPECT_EQ(of.full->choose(collective::reduce, 8).how, algorithm::board);
  }
}

class BoardCall : public testing::Test {
 protected:
  static asio::awaitable<void> sum(communicator& among, std::vector<std::int32_t>& data) {
    return all_reduce(among, data, data_type::int32, reduce_op::sum, algorithm::board);
  }
};

asio::awaitable<void> repeat_sums(communicator& among, int count) {
  std::vector<std::vector<std::int32_t>> data;
  std::vector<asio::awaitable<void>> calls;
  for (int i = 0; i < count; ++i) data.emplace_back(3, i * 100 + among.rank());
  for (auto& each : data) {
    calls.push_back(all_reduce(among, each, data_type::int32, reduce_op::sum, algorithm::board));
  }
  co_await when_all(std::move(calls));
  const int n = among.size();
  for (int i = 0; i < count; ++i) {
    for (const std::int32_t got : data[static_cast<std::size_t>(i)]) {
      EXPECT_EQ(got, n * i * 100 + n * (n - 1) / 2);
    }
  }
}

TEST_F(BoardCall, MoreThanSixtyFourWaitForTheOldest) {
  for (const int n : {2, 5}) {
    for (const int calls : {60, 300}) {
      job ranks(kind("shm"), n, usual());
      EXPECT_EQ(ranks.run([&](int r) { return repeat_sums(ranks.world(r), calls); }), "");
    }
  }
}

/// Calls by messages wait for the oldest on some ranks; the one by the board does not pass them.
TEST_F(BoardCall, DoesNotOvertakeQueuedCalls) {
  const auto calls_of = [](communicator& among, std::vector<std::vector<std::int32_t>>& data) {
    std::vector<asio::awaitable<void>> calls;
    for (int i = 0; i < 70; ++i) {
      std::vector<std::int32_t>& mine = data.emplace_back(3, i);
      const algorithm how = i < 69 ? algorithm::ring : algorithm::board;
      calls.push_back(all_reduce(among, mine, data_type::int32, reduce_op::sum, how));
    }
    return calls;
  };
  const auto some_or_one = [&](communicator& among) -> asio::awaitable<void> {
    std::vector<std::vector<std::int32_t>> data;
    data.reserve(70);
    std::vector<asio::awaitable<void>> calls = calls_of(among, data);
    if (among.rank() == 0) {
      for (auto& each : calls) co_await std::move(each);
    } else {
      co_await when_all(std::move(calls));
    }
    for (int i = 0; i < 70; ++i) EXPECT_EQ(data[static_cast<std::size_t>(i)][0], 3 * i);
  };
  job ranks(kind("shm"), 3, usual());
  EXPECT_EQ(ranks.run([&](int r) { return some_or_one(ranks.world(r)); }), "");
}

asio::awaitable<void> recv_many(communicator& among, int count) {
  for (int i = 0; i < count; ++i) {
    std::int32_t word = among.rank() == 0 ? i : -1;
    const mutable_view data(&word, sizeof word);
    co_await broadcast(among, data, 0, algorithm::board);
    EXPECT_EQ(word, i);
  }
}

TEST_F(BoardCall, RootAheadWaitsForFreeSlot) {
  job ranks(kind("shm"), 3, usual());
  int done = 0;
  ranks.start([&](int r) { return r == 0 ? recv_many(ranks.world(0), 200) : nothing(); });
  for (int i = 0; i < 1000; ++i) ranks.context.poll();
  EXPECT_EQ(ranks.running, 1) << "the root did not wait";
  // The others arrive late and block in between.
  for (int r = 1; r < 3; ++r) {
    ++ranks.running;
    asio::co_spawn(ranks.context, recv_many(ranks.world(r), 200), [&](std::exception_ptr failure) {
      EXPECT_EQ(describe(failure), describe(nullptr));
      --ranks.running;
      ++done;
    });
  }
  ASSERT_TRUE(ranks.finish());
  EXPECT_EQ(done, 2);
  EXPECT_FALSE(ranks.code(0)) << ranks.text(0);
}

TEST_F(BoardCall, DifferentCallsAreMismatchOnEveryRank) {
  for (const bool other_length : {false, true}) {
    job ranks(kind("shm"), 3, usual());
    std::vector<std::vector<std::int32_t>> data(3, std::vector<std::int32_t>(4));
    if (other_length) data[1].resize(5);
    ASSERT_NE(ranks.run([&](int r) {
      auto& mine = data[static_cast<std::size_t>(r)];
      const reduce_op op = r == 1 && !other_length ? reduce_op::maximum : reduce_op::sum;
      return all_reduce(ranks.world(r), mine, data_type::int32, op, algorithm::board);
    }),
              "hangs");
    for (int r = 0; r < 3; ++r) {
      EXPECT_EQ(ranks.code(r), errc::call_mismatch) << ranks.text(r);
      EXPECT_NE(ranks.text(r).find(other_length ? "20 bytes" : "maximum"), std::string::npos)
          << ranks.text(r);
      EXPECT_NE(ranks.text(r).find(other_length ? "16 bytes" : "sum"), std::string::npos)
          << ranks.text(r);
    }
  }
}

TEST_F(BoardCall, BoardAgainstChannelCallIsMismatch) {
  job ranks(kind("shm"), 2, usual());
  std::vector<std::vector<std::int32_t>> data{std::vector<std::int32_t>(4),
                                              std::vector<std::int32_t>(40000)};
  ASSERT_NE(
      ranks.run([&](int r) { return sum(ranks.world(r), data[static_cast<std::size_t>(r)]); }),
      "hangs");
  for (int r = 0; r < 2; ++r) EXPECT_EQ(ranks.code(r), errc::call_mismatch) << ranks.text(r);
}

TEST_F(BoardCall, LostRankIsNamed) {
  for (const int which : board_calls()) {
    for (int lost = 0; lost < 3; ++lost) {
      SCOPED_TRACE(testing::Message() << test::every_call::name(which) << " without " << lost);
      job ranks(kind("shm"), 3, usual());
      std::vector<test::every_call> made(3);
      ranks.start([&](int r) {
        if (r == lost) return nothing();
        return made[static_cast<std::size_t>(r)].make(ranks.world(r), which);
      });
      ranks.context.poll();
      ranks.worlds[static_cast<std::size_t>(lost)].reset();
      ranks.fabrics[static_cast<std::size_t>(lost)].reset();
      ASSERT_TRUE(ranks.finish());
      for (int r = 0; r < 3; ++r) {
        if (r == lost || !ranks.code(r)) continue;
        EXPECT_EQ(ranks.code(r), errc::peer_lost) << ranks.text(r);
        EXPECT_EQ(ranks.why(r).peer, lost) << ranks.text(r);
      }
    }
  }
}

TEST_F(BoardCall, CancellationFailsOtherRanks) {
  job ranks(kind("shm"), 3, usual());
  std::vector<std::vector<std::int32_t>> data(3, std::vector<std::int32_t>(4));
  ranks.start([&](int r) {
    if (r == 2) return nothing();
    asio::awaitable<void> call = sum(ranks.world(r), data[static_cast<std::size_t>(r)]);
    if (r == 1) return call;
    return with_deadline(std::chrono::milliseconds(5), std::move(call), "a short try");
  });
  ASSERT_TRUE(ranks.finish());
  EXPECT_EQ(ranks.code(0), errc::timed_out) << ranks.text(0);
  EXPECT_EQ(ranks.code(1), errc::message_cancelled) << ranks.text(1);
  EXPECT_EQ(ranks.why(1).peer, 0) << ranks.text(1);
}

TEST_F(BoardCall, HonorsOperationTimeout) {
  settings options = usual();
  options.operation_timeout = std::chrono::seconds(3);  // also while ranks join
  job ranks(kind("shm"), 2, options);
  std::vector<std::int32_t> data(4);
  ranks.start([&](int r) { return r == 0 ? sum(ranks.world(0), data) : nothing(); });
  ASSERT_TRUE(ranks.finish());
  EXPECT_EQ(ranks.code(0), errc::timed_out) << ranks.text(0);
  EXPECT_EQ(ranks.why(0).peer, 1) << ranks.text(0);
  EXPECT_NE(ranks.text(0).find("all_reduce"), std::string::npos) << ranks.text(0);
}

TEST_F(BoardCall, TimeoutNamesTheRoot) {
  job ranks(kind("shm"), 3, usual());
  ranks.world(1).set_timeout(std::chrono::milliseconds(50));
  std::vector<std::int32_t> data(4);
  ranks.start([&](int r) {
    if (r != 1) return nothing();
    return broadcast(ranks.world(1), data, 2, algorithm::board);
  });
  ASSERT_TRUE(ranks.finish());
  EXPECT_EQ(ranks.code(1), errc::timed_out) << ranks.text(1);
  EXPECT_EQ(ranks.why(1).peer, 2) << ranks.text(1);
}

TEST_F(BoardCall, IsDestroyedWithItsLoop) {
  job ranks(kind("shm"), 2, usual());
  std::vector<std::int32_t> data(4);
  ranks.start([&](int r) { return r == 0 ? sum(ranks.world(0), data) : nothing(); });
  ranks.context.poll();
  EXPECT_EQ(ranks.running, 1);
}

TEST_F(BoardCall, FailsForRankThatHasClosed) {
  job ranks(kind("shm"), 2, usual());
  std::vector<std::int32_t> data(4);
  ranks.start([&](int r) { return r == 0 ? sum(ranks.world(0), data) : nothing(); });
  ranks.context.poll();
  ranks.fabrics[0]->close();
  ASSERT_TRUE(ranks.finish());
  EXPECT_EQ(ranks.code(0), errc::channel_closed) << ranks.text(0);
}

}  // namespace
}  // namespace tandem
