#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <tandem/async.hpp>
#include <tandem/collectives.hpp>
#include <tandem/plan.hpp>

#include "collectives/job.hpp"
#include "collectives/reference.hpp"

namespace tandem {
namespace {

using test::job;
using test::small_pieces;

/// Small chunks, so that small data take every path: several chunks, and announced messages.
constexpr reduce_op all_ops[] = {reduce_op::sum, reduce_op::product, reduce_op::minimum,
                                 reduce_op::maximum};

template <class T>
class AllReduce : public testing::Test {};
using element_types = testing::Types<float, double, std::int32_t, std::int64_t>;

struct element_names {
  template <class T>
  static std::string GetName(int) {
    return std::string(name(test::type_of<T>));
  }
};
TYPED_TEST_SUITE(AllReduce, element_types, element_names);

template <class T>
void expect_reference(job& ranks, reduce_op op, algorithm how, std::size_t count) {
  SCOPED_TRACE(fmt::format("{} {} of {} {} on {} ranks", name(how), name(op), count,
                           name(test::type_of<T>), ranks.size()));
  std::vector<std::vector<T>> data;
  for (int r = 0; r < ranks.size(); ++r) data.push_back(test::data_of<T>(r, count));
  const std::string failed = ranks.run([&](int r) {
    return all_reduce(ranks.world(r), data[static_cast<std::size_t>(r)], test::type_of<T>, op, how);
  });
  ASSERT_EQ(failed, "");
  const std::vector<T> expected = test::reference<T>(op, how, ranks.size(), count);
  for (const std::vector<T>& got : data) {
    ASSERT_EQ(got.size(), count);
    ASSERT_TRUE(count == 0 || std::memcmp(got.data(), expected.data(), count * sizeof(T)) == 0);
  }
}

TYPED_TEST(AllReduce, MatchesDocumentedOrderBitwise) {
  const std::size_t chunk = small_pieces().collective_chunk_bytes / sizeof(TypeParam);
  for (int n = 1; n <= 9; ++n) {
    job ranks(n, small_pieces());
    const auto each = static_cast<std::size_t>(n);
    for (const std::size_t count :
         {std::size_t{0}, std::size_t{1}, std::size_t{7}, each - 1, std::size_t{1000}, chunk - 1,
          chunk + 1, each * chunk - 1, 2 * each * chunk + 1}) {
      for (const reduce_op op : all_ops) {
        expect_reference<TypeParam>(ranks, op, algorithm::ring, count);
        expect_reference<TypeParam>(ranks, op, algorithm::recursive_doubling, count);
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

TEST(AllReduceChoice, DependsOnLength) {
  settings options;
  options.plan = "all_reduce:400-=ring";
  for (const std::size_t count : {std::size_t{99}, std::size_t{100}}) {
    job ranks(5, options);
    std::vector<std::vector<float>> data;
    for (int r = 0; r < 5; ++r) data.push_back(test::data_of<float>(r, count));
    ASSERT_EQ(ranks.run([&](int r) {
      return all_reduce(ranks.world(r), data[static_cast<std::size_t>(r)], data_type::float32,
                        reduce_op::sum);
    }),
              "");
    const auto how = count == 100 ? algorithm::ring : algorithm::recursive_doubling;
    EXPECT_EQ(data[3], test::reference<float>(reduce_op::sum, how, 5, count));
  }
}

TEST(AllReduceChoice, SplitsSegmentsForOverlap) {
  // 4 segments of 256 KiB, chunks of at most 512 KiB: unsplit, every step would wait for the one
  // before.
  job ranks(4);
  std::vector<std::vector<float>> data;
  for (int r = 0; r < 4; ++r) data.push_back(test::data_of<float>(r, 1 << 18));
  ASSERT_EQ(ranks.run([&](int r) {
    return all_reduce(ranks.world(r), data[static_cast<std::size_t>(r)], data_type::float32,
                      reduce_op::sum);
  }),
            "");
  EXPECT_EQ(data[2], test::reference<float>(reduce_op::sum, algorithm::ring, 4, 1 << 18));
  EXPECT_EQ(ranks.fabrics[0]->find(1)->stats().messages_sent, 2u * 3u * 2u);
}

asio::awaitable<void> many_at_once(communicator& among,
                                   std::vector<std::vector<std::int64_t>>& data) {
  std::vector<asio::awaitable<void>> calls;
  for (std::size_t i = 0; i < data.size(); ++i) {
    const auto how = i % 2 == 0 ? algorithm::ring : algorithm::recursive_doubling;
    calls.push_back(all_reduce(among, data[i], data_type::int64, reduce_op::sum, how));
  }
  co_await when_all(std::move(calls));
}

TEST(Collectives, ConcurrentCallsDoNotInterfere) {
  constexpr std::size_t calls = 64;
  job ranks(3, small_pieces());
  std::vector<std::vector<std::vector<std::int64_t>>> data(3);
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t i = 0; i < calls; ++i) {
      data[r].emplace_back(i * 5, static_cast<std::int64_t>((r + 1) * (i + 1)));
    }
  }
  const std::string failed = ranks.run(
      [&](int r) { return many_at_once(ranks.world(r), data[static_cast<std::size_t>(r)]); });
  ASSERT_EQ(failed, "");
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t i = 0; i < calls; ++i) {
      EXPECT_EQ(data[r][i],
                std::vector<std::int64_t>(i * 5, static_cast<std::int64_t>(6 * (i + 1))));
    }
  }
}

TEST(Collectives, MoreThanSixtyFourWaitForTheOldest) {
  constexpr std::size_t calls = 300;
  job ranks(2, small_pieces());
  std::vector<std::vector<std::vector<std::int64_t>>> data(2);
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t i = 0; i < calls; ++i) {
      data[r].emplace_back(i % 7, static_cast<std::int64_t>((r + 1) * (i + 1)));
    }
  }
  const auto body = [&](int r) {
    return many_at_once(ranks.world(r), data[static_cast<std::size_t>(r)]);
  };
  ASSERT_EQ(ranks.run(body), "");
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t i = 0; i < calls; ++i) {
      EXPECT_EQ(data[r][i],
                std::vector<std::int64_t>(i % 7, static_cast<std::int64_t>(3 * (i + 1))));
    }
  }
}

asio::awaitable<void> cancelled_while_queued(communicator& among,
                                             std::vector<std::vector<std::int64_t>>& data) {
  // The other rank calls nothing, so that none of the first 64 ends.
  std::vector<asio::awaitable<void>> calls;
  for (auto& each : data) {
    calls.push_back(all_reduce(among, each, data_type::int64, reduce_op::sum));
  }
  calls.push_back([]() -> asio::awaitable<void> {
    throw std::runtime_error("enough");
    co_return;
  }());
  co_await when_all(std::move(calls));
}

TEST(Collectives, QueuedCallsEndWithTheirCancellation) {
  job ranks(2, small_pieces());
  std::vector<std::vector<std::int64_t>> data(100, std::vector<std::int64_t>(10));
  const auto body = [&](int r) {
    return r == 0 ? cancelled_while_queued(ranks.world(0), data) : nothing();
  };
  EXPECT_NE(ranks.run(body), "hangs");
  EXPECT_EQ(ranks.text(0), "enough");
}

asio::awaitable<void> barriers(communicator& among, int times, std::vector<int>& passed,
                               bool& in_step) {
  for (int i = 0; i < times; ++i) {
    ++passed[static_cast<std::size_t>(among.rank())];
    co_await barrier(among);
    for (const int p : passed) in_step = in_step && p >= i + 1;
  }
}

TEST(Barrier, BlocksUntilLastRankArrives) {
  for (int n = 1; n <= 9; ++n) {
    job ranks(n);
    std::vector<int> passed(static_cast<std::size_t>(n));
    bool in_step = true;
    EXPECT_EQ(ranks.run([&](int r) { return barriers(ranks.world(r), 100, passed, in_step); }), "");
    EXPECT_TRUE(in_step);
  }
}

TEST(Broadcast, ReachesEveryRankFromEveryRoot) {
  const settings options = small_pieces();
  bool used_chain = false;
  bool used_tree = false;
  for (int n = 1; n <= 9; ++n) {
    job ranks(n, options);
    for (int root = 0; root < n; ++root) {
      for (const std::size_t bytes : {0u, 1u, 513u, 1023u, 1025u, 10240u, 65537u}) {
        const plan chosen = plan::standard(n, options);
        const algorithm how = chosen.choose(collective::broadcast, bytes).how;
        (how == algorithm::chain ? used_chain : used_tree) = true;
        std::vector<char> source(bytes);
        for (std::size_t i = 0; i < bytes; ++i) source[i] = static_cast<char>(i * 7 + i / 256);
        std::vector<std::vector<char>> data(static_cast<std::size_t>(n), std::vector<char>(bytes));
        data[static_cast<std::size_t>(root)] = source;
        const std::string failed = ranks.run([&](int r) {
          return broadcast(ranks.world(r), data[static_cast<std::size_t>(r)], root);
        });
        ASSERT_EQ(failed, "") << n << " ranks, root " << root << ", " << bytes << " bytes";
        for (const std::vector<char>& got : data) ASSERT_EQ(got, source);
      }
    }
  }
  EXPECT_TRUE(used_chain && used_tree);
}

TEST(Broadcast, UsesChainWhereItIsFaster) {
  const auto takes_chain = [](int ranks, std::size_t bytes) {
    settings options;
    options.collective_chunk_bytes = 1 << 19;
    const plan chosen = plan::standard(ranks, options);
    return chosen.choose(collective::broadcast, bytes).how == algorithm::chain;
  };
  EXPECT_FALSE(takes_chain(1, 1 << 30));
  EXPECT_FALSE(takes_chain(2, 1 << 30));
  EXPECT_FALSE(takes_chain(4, 1 << 20));  // 1 + 2 / 2 = 2 levels
  EXPECT_TRUE(takes_chain(4, 3 << 19));   // 1 + 2 / 3
  EXPECT_FALSE(takes_chain(1000, 16 << 20));
}

TEST(Gather, OrdersBlocksByRank) {
  for (int n = 1; n <= 9; ++n) {
    job ranks(n, small_pieces());
    for (int root = 0; root < n; ++root) {
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{1000}}) {
        std::vector<std::vector<std::int64_t>> mine;
        std::vector<std::int64_t> expected;
        for (int r = 0; r < n; ++r) {
          mine.push_back(test::data_of<std::int64_t>(r, count));
          expected.insert(expected.end(), mine.back().begin(), mine.back().end());
        }
        std::vector<std::int64_t> all(count * static_cast<std::size_t>(n));
        const std::string failed = ranks.run([&](int r) {
          const mutable_view into = r == root ? mutable_view(all) : mutable_view();
          return gather(ranks.world(r), mine[static_cast<std::size_t>(r)], into, root);
        });
        ASSERT_EQ(failed, "");
        ASSERT_EQ(all, expected);
      }
    }
  }
}

asio::awaitable<void> relay(communicator& among, std::vector<int>& received) {
  const int n = among.size();
  const int mine = 100 + among.rank();
  const const_view out(&mine, sizeof(mine));
  co_await among.send((among.rank() + 1) % n, out, 65535);
  int got[2] = {0, 0};
  const mutable_view into(&got, sizeof(got));
  const std::size_t bytes = co_await among.recv((among.rank() + n - 1) % n, into, 65535);
  received[static_cast<std::size_t>(among.rank())] = bytes == sizeof(int) ? got[0] : -1;
}

asio::awaitable<void> as_group(job& all, int rank, std::vector<int> members, std::uint16_t id,
                               std::vector<int>& received, std::vector<std::int32_t>& sums) {
  communicator part(*all.fabrics[static_cast<std::size_t>(rank)], settings(), members, id);
  sums[static_cast<std::size_t>(rank)] = 1 << rank;
  const mutable_view mine(&sums[static_cast<std::size_t>(rank)], sizeof(std::int32_t));
  co_await all_reduce(part, mine, data_type::int32, reduce_op::sum);
  co_await barrier(all.world(rank));
  co_await relay(part, received);
}

TEST(Communicator, GroupsOfOneJobDoNotInterfere) {
  job ranks(5);
  std::vector<int> received[2] = {std::vector<int>(3), std::vector<int>(2)};
  std::vector<std::int32_t> sums(5);
  // Ranks of a group are numbered in the order of its list.
  const std::string failed = ranks.run([&](int r) {
    const bool first = r % 2 == 0;
    return as_group(ranks, r, first ? std::vector<int>{4, 0, 2} : std::vector<int>{1, 3},
                    first ? 1 : 4095, received[first ? 0 : 1], sums);
  });
  ASSERT_EQ(failed, "");
  EXPECT_EQ(sums, (std::vector<std::int32_t>{21, 10, 21, 10, 21}));
  EXPECT_EQ(received[0], (std::vector<int>{102, 100, 101}));
  EXPECT_EQ(received[1], (std::vector<int>{101, 100}));
}

asio::awaitable<void> swap_views(communicator& among, int peer, int& received) {
  const int mine = among.rank();
  const const_view out(&mine, sizeof(mine));
  co_await among.send(peer, out);
  const mutable_view in(&received, sizeof(received));
  co_await among.recv(peer, in);
}

TEST(Communicator, CanBeMovedBetweenCalls) {
  job ranks(2);
  int received[2] = {-1, -1};
  ASSERT_EQ(ranks.run([&](int r) { return swap_views(ranks.world(r), 1 - r, received[r]); }), "");
  communicator moved = std::move(ranks.world(0));
  ranks.worlds[0] = std::make_unique<communicator>(std::move(moved));
  ASSERT_EQ(ranks.run([&](int r) { return swap_views(ranks.world(r), 1 - r, received[r]); }), "");
  EXPECT_EQ(received[0], 1);
  EXPECT_EQ(received[1], 0);
}

}  // namespace
}  // namespace tandem
