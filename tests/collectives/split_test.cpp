#include <gtest/gtest.h>

#include <tandem/collectives.hpp>

#include "collectives/job.hpp"

namespace tandem {
namespace {

using test::job;

struct seen {
  int rank = -1, size = -1;
  std::int64_t sum = -1;
};

asio::awaitable<void> add_up(communicator& among, std::int64_t mine, seen& into) {
  std::int64_t number = mine;
  const mutable_view data(&number, sizeof number);
  co_await all_reduce(among, data, data_type::int64, reduce_op::sum);
  into = {among.rank(), among.size(), number};
}

/// Splits into halves by parity in reverse order, then each half in two.
asio::awaitable<void> divide_twice(communicator& world, seen& first, seen& second, seen& total) {
  const int rank = world.rank();
  std::unique_ptr<communicator> half = co_await world.split(rank % 2, -rank);
  co_await add_up(*half, rank, first);
  std::unique_ptr<communicator> quarter = co_await half->split(half->rank() % 2);
  co_await add_up(*quarter, rank, second);
  co_await add_up(*half, rank, first);
  co_await add_up(world, rank, total);
}

TEST(Split, SplitsGroupsRecursively) {
  job ranks(9);
  std::vector<seen> first(9), second(9), total(9);
  ASSERT_EQ(ranks.run([&](int r) {
    const auto i = static_cast<std::size_t>(r);
    return divide_twice(ranks.world(r), first[i], second[i], total[i]);
  }),
            "");
  for (int r = 0; r < 9; ++r) {
    const auto i = static_cast<std::size_t>(r);
    const bool even = r % 2 == 0;
    EXPECT_EQ(first[i].size, even ? 5 : 4);
    EXPECT_EQ(first[i].rank, (even ? 8 - r : 7 - r) / 2);
    EXPECT_EQ(first[i].sum, even ? 20 : 16);
    EXPECT_EQ(total[i].sum, 36);
  }
  // 8 6 4 2 0 splits into 8 4 0 and 6 2; 7 5 3 1 into 7 3 and 5 1.
  const std::int64_t sums[9] = {12, 6, 8, 10, 12, 6, 8, 10, 12};
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(second[i].sum, sums[i]) << i;
}

asio::awaitable<void> leave_out(communicator& world, int colour, bool& is_excluded, seen& got) {
  std::unique_ptr<communicator> part = co_await world.split(colour);
  is_excluded = part == nullptr;
  if (part) co_await add_up(*part, world.rank(), got);
}

TEST(Split, ReturnsNullWithoutColour) {
  job ranks(4);
  bool is_excluded[4] = {};
  std::vector<seen> got(4);
  ASSERT_EQ(ranks.run([&](int r) {
    const auto i = static_cast<std::size_t>(r);
    return leave_out(ranks.world(r), r == 1 ? -1 : 7, is_excluded[i], got[i]);
  }),
            "");
  EXPECT_TRUE(!is_excluded[0] && is_excluded[1] && !is_excluded[2] && !is_excluded[3]);
  for (const std::size_t i : {0u, 2u, 3u}) EXPECT_EQ(got[i].sum, 5);
}

asio::awaitable<void> divide_often(communicator& world, int times, seen& got) {
  for (int i = 0; i < times; ++i) {
    std::unique_ptr<communicator> part = co_await world.split(0);
    co_await add_up(*part, 1, got);
  }
}

TEST(Split, ReleasesIds) {
  job ranks(2);
  std::vector<seen> got(2);
  ASSERT_EQ(ranks.run([&](int r) {
    return divide_often(ranks.world(r), 5000, got[static_cast<std::size_t>(r)]);
  }),
            "");
  EXPECT_EQ(got[1].sum, 2);
}

asio::awaitable<void> divide(communicator& world) {
  const std::unique_ptr<communicator> part = co_await world.split(0);
}

TEST(Split, ReportsExhaustedIds) {
  job ranks(2);
  // Some ids are in use on one rank, the others on the other rank.
  ranks.fabrics[0]->groups()->set();
  for (std::size_t id = 0; id < 100; ++id) ranks.fabrics[0]->groups()->reset(id);
  for (std::size_t id = 0; id < 100; ++id) ranks.fabrics[1]->groups()->set(id);
  ASSERT_NE(ranks.run([&](int r) { return divide(ranks.world(r)); }), "hangs");
  EXPECT_EQ(ranks.code(0), errc::limit_exceeded) << ranks.text(0);
  EXPECT_EQ(ranks.code(1), errc::limit_exceeded) << ranks.text(1);
}

TEST(Split, DuplicateGroupIdsAreRefused) {
  job ranks(3);
  const communicator first(*ranks.fabrics[0], settings(), {0, 1}, 7);
  EXPECT_THROW(communicator(*ranks.fabrics[0], settings(), {0, 2}, 7), error);
  EXPECT_NO_THROW(communicator(*ranks.fabrics[0], settings(), {0, 2}, 8));
}

asio::awaitable<void> group_of_two(communicator& world, std::vector<int> members, seen& got) {
  std::unique_ptr<communicator> pair = co_await world.create_group(std::move(members), 77);
  co_await add_up(*pair, world.rank(), got);
}

/// The other ranks take no part.
TEST(CreateGroup, IsCalledByItsMembersOnly) {
  job ranks(4);
  std::vector<seen> got(4);
  ASSERT_EQ(ranks.run([&](int r) {
    if (r % 2 == 0) return test::nothing();
    return group_of_two(ranks.world(r), std::vector<int>{3, 1}, got[static_cast<std::size_t>(r)]);
  }),
            "");
  EXPECT_EQ(got[3].rank, 0);
  EXPECT_EQ(got[1].rank, 1);
  EXPECT_EQ(got[1].sum, 4);
  EXPECT_EQ(got[3].size, 2);
}

asio::awaitable<void> bad_group(communicator& world, std::vector<int> members, std::uint16_t id) {
  co_await world.create_group(std::move(members), id);
}

TEST(CreateGroup, RefusesInvalidArguments) {
  job ranks(2);
  const auto refusal = [&](const std::vector<int>& members, std::uint16_t id) {
    ranks.run(
        [&](int r) { return r == 0 ? bad_group(ranks.world(0), members, id) : test::nothing(); });
    EXPECT_EQ(ranks.code(0), errc::bad_input);
    return ranks.text(0);
  };
  EXPECT_NE(refusal({0, 2}, 5).find("no rank 2 in a group of 2"), std::string::npos);
  EXPECT_NE(refusal({1}, 5).find("not a member"), std::string::npos);
  EXPECT_NE(refusal({0, 1}, 0).find("group id 0"), std::string::npos);
}

asio::awaitable<void> wait_alone(communicator& world, bool for_message) {
  world.set_timeout(std::chrono::milliseconds(20));
  std::int64_t number = 0;
  const mutable_view data(&number, sizeof number);
  if (for_message) {
    co_await world.recv(1, data);
  } else {
    co_await all_reduce(world, data, data_type::int64, reduce_op::sum);
  }
}

/// Other than the settings', which are minutes here.
TEST(SetTimeout, LimitsWhatStartsAfterwards) {
  for (const bool for_message : {true, false}) {
    job ranks(2);
    ranks.run(
        [&](int r) { return r == 0 ? wait_alone(ranks.world(0), for_message) : test::nothing(); });
    EXPECT_EQ(ranks.code(0), errc::timed_out) << ranks.text(0);
    EXPECT_NE(ranks.text(0).find("peer rank 1"), std::string::npos) << ranks.text(0);
  }
}

}  // namespace
}  // namespace tandem
