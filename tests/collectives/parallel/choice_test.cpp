// Selection of a back-end for each group and its reason, without running ranks.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tandem/channels.hpp>
#include <tandem/parallel.hpp>
#include <utility>
#include <vector>

namespace tandem {
namespace {

constexpr memory_kind cuda = memory_kind::cuda, hip = memory_kind::hip, host = memory_kind::host;

/// Ranks with a device each.
std::vector<rank_facts> ranks_on(const std::vector<memory_kind>& kinds, int library = 22803) {
  std::vector<rank_facts> all;
  for (const memory_kind kind : kinds) {
    const std::string device = "device " + std::to_string(all.size());
    all.push_back({kind, 0, kind == host ? 0 : library, device});
  }
  return all;
}

std::string same_transport(int, int) {
  return "tcp";
}

std::vector<group_choice> choices(const char* layout, std::size_t dimension,
                                  const std::vector<rank_facts>& known,
                                  const transport_between& transport = same_transport) {
  return choose_backends(parallel_layout::parse(layout).groups(dimension), known, transport);
}

std::string text(const char* layout, std::size_t dimension, const std::vector<rank_facts>& known,
                 const transport_between& transport = same_transport) {
  return text_of(choices(layout, dimension, known, transport));
}

TEST(GroupChoice, UsesLibraryInsideIslandsAndChannelsAcross) {
  const std::vector<rank_facts> known = ranks_on({cuda, cuda, cuda, cuda, hip, hip, hip, hip});
  const char* const layout = "pipeline=2,data=2,tensor=2";
  EXPECT_EQ(text(layout, 0, known),
            "pipeline 0, ranks 0,4: tcp (2 islands: cuda 0, hip 4)\n"
            "pipeline 1, ranks 1,5: tcp (2 islands: cuda 1, hip 5)\n"
            "pipeline 2, ranks 2,6: tcp (2 islands: cuda 2, hip 6)\n"
            "pipeline 3, ranks 3,7: tcp (2 islands: cuda 3, hip 7)\n");
  EXPECT_EQ(text(layout, 1, known),
            "data 0, ranks 0,2: NCCL 2.28.3 (all on cuda, one island)\n"
            "data 1, ranks 1,3: NCCL 2.28.3 (all on cuda, one island)\n"
            "data 2, ranks 4,6: RCCL 2.28.3 (all on hip, one island)\n"
            "data 3, ranks 5,7: RCCL 2.28.3 (all on hip, one island)\n");
  EXPECT_EQ(choices(layout, 2, known)[3].how, group_backend::library);
  EXPECT_EQ(choices(layout, 0, known)[3].how, group_backend::channels);
}

TEST(GroupChoice, UsesTwoLevelsWhereRanksShareAnIsland) {
  const std::vector<group_choice> found =
      choices("mine=5", 0, ranks_on({cuda, hip, cuda, hip, cuda}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].how, group_backend::levels);
  EXPECT_TRUE(found[0].has_islands());
  EXPECT_EQ(found[0].islands, (std::vector<std::vector<int>>{{0, 2, 4}, {1, 3}}));
  EXPECT_EQ(found[0].text(),
            "mine 0, ranks 0-4: NCCL 2.28.3 and RCCL 2.28.3 inside, tcp across (2 islands: cuda "
            "0,2,4, hip 1,3)");
  // Islands of unequal size; the single rank needs no library.
  std::vector<rank_facts> uneven = ranks_on({cuda, cuda, cuda, hip});
  uneven[3].library = 0;
  EXPECT_EQ(text("data=4", 0, uneven),
            "data 0, ranks 0-3: NCCL 2.28.3 inside, tcp across (2 islands: cuda 0-2, hip 3)\n");
}

TEST(GroupChoice, SeparatesColours) {
  std::vector<rank_facts> known = ranks_on({cuda, cuda, cuda, cuda});
  known[2].colour = known[3].colour = 1;
  known[2].device = known[0].device;
  EXPECT_EQ(text("pipeline=2,tensor=2", 0, known),
            "pipeline 0, ranks 0,2: tcp (2 islands: cuda 0, cuda 2)\n"
            "pipeline 1, ranks 1,3: tcp (2 islands: cuda 1, cuda 3)\n");
  EXPECT_EQ(choices("pipeline=2,tensor=2", 1, known)[1].how, group_backend::library);
}

TEST(GroupChoice, ExplainsWhyNoLibraryIsUsed) {
  const auto why = [](const std::vector<rank_facts>& known) {
    const group_choice found = choices("tensor=3", 0, known)[0];
    EXPECT_EQ(found.how, group_backend::channels);
    EXPECT_EQ(found.by, "tcp");
    EXPECT_FALSE(found.has_islands());
    return found.why;
  };
  EXPECT_EQ(why(ranks_on({host, host, host})), "host memory");
  EXPECT_EQ(why(ranks_on({cuda, cuda, host})), "rank 2 works on host memory");
  std::vector<rank_facts> known = ranks_on({cuda, cuda, cuda});
  known[1].library = 0;
  EXPECT_EQ(why(known), "rank 1 has no NCCL");
  known[1].library = 22203;
  EXPECT_EQ(why(known), "NCCL is 2.28.3 on rank 0 and 2.22.3 on rank 1");
  known = ranks_on({cuda, cuda, hip});
  known[1].device = known[0].device;
  EXPECT_EQ(why(known), "ranks 0 and 1 share a device");
  EXPECT_EQ(why(ranks_on({hip, cuda, hip}, 0)), "rank 0 has no RCCL");
}

TEST(GroupChoice, NamesJobRanks) {
  std::vector<rank_facts> known = ranks_on({cuda, cuda, cuda, cuda});
  known[3].device = known[1].device;
  EXPECT_EQ(choices("data=2,tensor=2", 0, known)[1].why, "ranks 1 and 3 share a device");
}

TEST(GroupChoice, OfOneRankNeedsNoBackend) {
  EXPECT_EQ(text("tensor=1", 0, ranks_on({cuda})), "tensor 0, ranks 0: nothing (one rank)\n");
  EXPECT_EQ(choices("tensor=1", 0, ranks_on({host}))[0].how, group_backend::alone);
}

TEST(GroupChoice, OmitsUnknownVersions) {
  const std::vector<rank_facts> known = ranks_on({cuda, cuda}, rank_facts::unknown_version);
  EXPECT_EQ(choices("tensor=2", 0, known)[0].by, "NCCL");
}

TEST(GroupChoice, QueriesEachPairOnce) {
  std::map<std::pair<int, int>, int> asked;
  const transport_between count = [&asked](int from, int to) {
    ++asked[{from, to}];
    return std::string("x");
  };
  using pairs = std::map<std::pair<int, int>, int>;
  (void)choices("a=2", 0, ranks_on({host, host}), count);
  EXPECT_EQ(std::exchange(asked, {}), (pairs{{{0, 1}, 1}}));
  (void)choices("a=3", 0, ranks_on({host, host, host}), count);
  EXPECT_EQ(std::exchange(asked, {}), (pairs{{{0, 1}, 1}, {{1, 2}, 1}, {{2, 0}, 1}}));
  (void)choices("a=4", 0, ranks_on({cuda, cuda, hip, hip}), count);
  EXPECT_EQ(std::exchange(asked, {}), (pairs{{{1, 2}, 1}, {{3, 0}, 1}}));
  (void)choices("a=4", 0, ranks_on({cuda, cuda, cuda, cuda}), count);
  EXPECT_EQ(std::exchange(asked, {}), pairs{});
}

TEST(GroupChoice, NamesRanksWithDifferentTransports) {
  const transport_between transport = [](int from, int to) {
    return std::string(from / 2 == to / 2 ? "shm" : "tcp");
  };
  EXPECT_EQ(choices("a=2", 0, ranks_on({host, host}), transport)[0].by, "shm");
  EXPECT_EQ(choices("a=4", 0, ranks_on({host, host, host, host}), transport)[0].by,
            "shm (0 to 1, 2 to 3), tcp (1 to 2, 3 to 0)");
  EXPECT_EQ(choices("a=6", 0, ranks_on({host, host, host, host, host, host}), transport)[0].by,
            "shm (0 to 1, 2 to 3 and 1 more), tcp (1 to 2, 3 to 4 and 1 more)");
}

TEST(WayOf, DescribesTransferBetweenMemoryKinds) {
  using devices::expected_transport;
  const devices::pair_capabilities none, stages{false, true}, all{true, true};
  EXPECT_EQ(expected_transport(host, host, all, "shm"), "shm");
  EXPECT_EQ(expected_transport(cuda, cuda, all, "shm"), "peer copies");
  EXPECT_EQ(expected_transport(cuda, hip, all, "shm"), "shared staging");
  EXPECT_EQ(expected_transport(hip, hip, stages, "tcp"), "shared staging");
  EXPECT_EQ(expected_transport(cuda, hip, none, "tcp"), "forwarding over tcp");
  EXPECT_EQ(expected_transport(host, cuda, all, "shm"), "forwarding over shm");
}

}  // namespace
}  // namespace tandem
