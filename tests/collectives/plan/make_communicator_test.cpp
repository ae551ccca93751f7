#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <tandem/collectives.hpp>
#include <tandem/communicator.hpp>
#include <tandem/detail/profile_file.hpp>
#include <tandem/launch.hpp>

#include "collectives/job.hpp"
#include "communicator/agreement.hpp"
#include "communicator/probe.hpp"
#include "support/temporary_folder.hpp"

namespace tandem {
namespace {

using test::job;

settings on(std::string host, std::string pins = {}) {
  settings s;
  s.host = std::move(host);
  s.plan = std::move(pins);
  return s;
}

asio::awaitable<void> meet(fabric& over, const settings& mine, std::optional<plan>& agreed) {
  communicator all = co_await make_communicator(over, mine);
  std::vector<std::int32_t> ones(5000, 1);
  const mutable_view data(ones);
  co_await all_reduce(all, data, data_type::int32, reduce_op::sum);
  for (const std::int32_t sum : ones) EXPECT_EQ(sum, all.size());
  agreed = all.agreed();
}

/// Ranks with individual settings that make a communicator together.
struct meeting {
  explicit meeting(std::vector<settings> of_ranks)
      : options(std::move(of_ranks)),
        ranks(static_cast<int>(options.size())),
        agreed(options.size()) {}

  meeting(const std::string& kind, std::vector<settings> of_ranks)
      : options(std::move(of_ranks)),
        ranks(*std::ranges::find(test::fabric_kinds(), kind, &test::fabric_kind::name),
              static_cast<int>(options.size()), settings{}),
        agreed(options.size()) {}

  job::rank_body body() {
    return [this](int r) {
      const auto i = static_cast<std::size_t>(r);
      return meet(*ranks.fabrics[i], options[i], agreed[i]);
    };
  }
  std::string run() { return ranks.run(body()); }

  std::vector<settings> options;
  job ranks;
  std::vector<std::optional<plan>> agreed;
};

TEST(Agreement, EveryRankHasTheSamePlan) {
  for (const std::vector<std::string>& hosts : {std::vector<std::string>{"a"},
                                                {"a", "a"},
                                                {"a", "b"},
                                                {"a", "b", "a"},
                                                {"a", "b", "b", "a"},
                                                {"c", "c", "a", "b", "b"}}) {
    std::vector<settings> options;
    for (const std::string& host : hosts) options.push_back(on(host, "broadcast=tree"));
    meeting of(options);
    ASSERT_EQ(of.run(), "");
    for (const std::optional<plan>& one : of.agreed) {
      ASSERT_TRUE(one.has_value());
      EXPECT_EQ(one->text(), of.agreed[0]->text());
      EXPECT_EQ(one->known(), of.agreed[0]->known());
      EXPECT_EQ(one->known().host_of_rank, hosts);
      EXPECT_EQ(one->choose(collective::broadcast, 1u << 25).how, algorithm::tree);
    }
  }
}

TEST(Agreement, MeasuresIntraAndInterHost) {
  meeting of({on("a"), on("b"), on("b")});
  ASSERT_EQ(of.run(), "");
  const facts& known = of.agreed[0]->known();
  for (const path_facts& each : {known.within, known.across}) {
    EXPECT_EQ(each.channel, "local");
    EXPECT_NE(each, path_facts{}) << "nothing was measured";
    EXPECT_EQ(each.latency_ns, detail::rounded(each.latency_ns));
  }
  EXPECT_GT(of.ranks.fabrics[1]->find(2)->stats().messages_sent, 40u);
  EXPECT_LT(of.ranks.fabrics[0]->find(2)->stats().messages_sent, 40u);
}

TEST(Agreement, NamesTransportOfEachKind) {
  meeting of("mixed", {on("first"), on("first"), on("second"), on("second")});
  ASSERT_EQ(of.run(), "");
  for (const std::optional<plan>& one : of.agreed) {
    EXPECT_EQ(one->known().within.channel, "shm");
    EXPECT_EQ(one->known().across.channel, "tcp");
    EXPECT_EQ(one->hash(), of.agreed[0]->hash());
  }
}

asio::awaitable<void> meet_and_split(fabric& over, const settings& mine) {
  communicator all = co_await make_communicator(over, mine);
  const int rank = all.rank();
  const std::unique_ptr<communicator> part = co_await all.split(rank == 4 ? 1 : 0, -rank);
  const std::vector<std::string> hosts =
      rank == 4 ? std::vector<std::string>{"c"} : std::vector<std::string>{"b", "b", "a", "a"};
  EXPECT_EQ(part->agreed().known().host_of_rank, hosts);
  EXPECT_EQ(part->agreed().known().across, all.agreed().known().across);
  std::vector<std::int32_t> ones(5000, 1);
  const mutable_view data(ones);
  co_await all_reduce(*part, data, data_type::int32, reduce_op::sum, algorithm::two_level);
  for (const std::int32_t sum : ones) EXPECT_EQ(sum, part->size());
}

TEST(Agreement, SplitGroupsUsePlanOfTheirRanks) {
  meeting of({on("a"), on("a"), on("b"), on("b"), on("c")});
  EXPECT_EQ(of.ranks.run([&of](int r) {
    const auto i = static_cast<std::size_t>(r);
    return meet_and_split(*of.ranks.fabrics[i], of.options[i]);
  }),
            "");
}

void expect_disagreement(meeting& of, const std::string& words, int culprit) {
  ASSERT_NE(of.run(), "hangs");
  for (int r = 0; r < of.ranks.size(); ++r) {
    EXPECT_EQ(of.ranks.code(r), errc::call_mismatch) << of.ranks.text(r);
    EXPECT_NE(of.ranks.text(r).find(words), std::string::npos) << of.ranks.text(r);
    EXPECT_EQ(of.ranks.why(r).peer, culprit);
  }
  // The job itself has not failed.
  for (const auto& f : of.ranks.fabrics) {
    of.ranks.worlds.push_back(std::make_unique<communicator>(*f, settings{}));
  }
  const auto first = of.ranks.worlds.size() - of.ranks.fabrics.size();
  EXPECT_EQ(of.ranks.run([&](int r) {
    return barrier(*of.ranks.worlds[first + static_cast<std::size_t>(r)]);
  }),
            "");
}

TEST(Agreement, DifferentPinIsNamedOnEveryRank) {
  meeting of({on("a"), on("a"), on("a", "all_reduce=ring"), on("a")});
  expect_disagreement(of, R"("--plan auto" on ranks 0, 1, 3; "--plan all_reduce=ring" on rank 2)",
                      2);
}

TEST(Agreement, DifferentChunkIsNamedOnEveryRank) {
  meeting of({on("a"), on("b"), on("b")});
  of.options[0].collective_chunk_bytes = 128 * 1024;
  expect_disagreement(of, R"("--collective-chunk-bytes 128K" on rank 0)", 0);
}

TEST(Agreement, InvalidPinEndsAllRanks) {
  meeting of({on("a"), on("a", "all_reduce=rign"), on("a")});
  ASSERT_NE(of.run(), "hangs");
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(of.ranks.code(r), errc::bad_option) << of.ranks.text(r);
    EXPECT_NE(of.ranks.text(r).find("did you mean ring?"), std::string::npos) << of.ranks.text(r);
    if (r != 1) {
      EXPECT_EQ(of.ranks.why(r).rank, 1) << of.ranks.text(r);
    }
  }
}

TEST(Agreement, ProfileReplacesMeasurement) {
  const test::temporary_folder folder;
  facts measured;
  measured.within = {"shm", 0, 700, 9'000};
  measured.across = {"rails", 2, 40'000, 240};
  std::ofstream(folder.path("rates")) << detail::profile_file(measured);
  meeting of({on("a"), on("a"), on("b"), on("b")});
  for (settings& s : of.options) s.profile = folder.path("rates");
  ASSERT_EQ(of.run(), "");
  EXPECT_EQ(of.agreed[3]->known().across, measured.across);
  EXPECT_EQ(of.agreed[3]->known().within, measured.within);
  EXPECT_LT(of.ranks.fabrics[0]->find(1)->stats().messages_sent, 40u);

  measured.across.bytes_per_us = 250;
  std::ofstream(folder.path("others")) << detail::profile_file(measured);
  meeting apart({on("a"), on("b")});
  apart.options[0].profile = folder.path("rates");
  apart.options[1].profile = folder.path("others");
  expect_disagreement(apart, R"("profile across.bytes_per_us 250" on rank 1)", 1);

  meeting missing({on("a"), on("b")});
  missing.options[1].profile = folder.path("nowhere");
  ASSERT_NE(missing.run(), "hangs");
  EXPECT_EQ(missing.ranks.code(1), errc::bad_input) << missing.ranks.text(1);
  EXPECT_EQ(missing.ranks.code(0), errc::bad_input) << missing.ranks.text(0);
}

TEST(Agreement, LostRankEndsAllRanks) {
  int steps = 0;
  for (bool over = false; !over; steps += 1 + steps / 8) {
    meeting of({on("a"), on("b"), on("b"), on("a")});
    of.ranks.start(of.body());
    for (int i = 0; i < steps && !over; ++i)
      over = of.ranks.running == 0 || of.ranks.context.poll_one() == 0;
    of.ranks.fabrics[1]->fail(error(
        errc::peer_lost, {.peer = 1, .rail = {}, .phase = {}, .detail = "gone", .advice = {}}));
    ASSERT_TRUE(of.ranks.finish()) << "hangs after step " << steps;
    for (int r = 0; r < 4; ++r) {
      if (of.ranks.code(r)) {
        EXPECT_EQ(of.ranks.code(r), errc::peer_lost) << of.ranks.text(r);
      }
      EXPECT_TRUE(of.ranks.code(r) || of.agreed[static_cast<std::size_t>(r)].has_value());
    }
  }
  EXPECT_GT(steps, 100);
}

TEST(Agreement, PlansThatDifferAreComparedRuleByRule) {
  job ranks(3);
  settings other;
  other.plan = "gather=tree";
  const plan plans[] = {plan::standard(3, settings{}), plan::standard(3, settings{}),
                        plan::standard(3, other)};
  ASSERT_NE(
      ranks.run([&](int r) { return detail::compare_plans(ranks.world(r), plans[r].text()); }),
      "hangs");
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(ranks.code(r), errc::call_mismatch);
    EXPECT_NE(ranks.text(r).find(
                  R"("gather from 0: direct" on ranks 0, 1; "gather from 0: tree" on rank 2)"),
              std::string::npos)
        << ranks.text(r);
  }
  job same(3);
  EXPECT_EQ(same.run([&](int r) { return detail::compare_plans(same.world(r), plans[0].text()); }),
            "");
}

TEST(Difference, NamesFirstLineAndRanksByValue) {
  using detail::difference_of;
  const std::vector<std::string> same{"a 1\nb 2\n", "a 1\nb 2\n"};
  EXPECT_FALSE(difference_of(same).has_value());
  const std::vector<std::string> shorter{"a 1\nb 2\n", "a 1\n", "a 1\nb 2\n"};
  EXPECT_EQ(difference_of(shorter)->text, R"("b 2" on ranks 0, 2; "nothing" on rank 1)");
  EXPECT_EQ(difference_of(shorter)->rank, 1);
  std::vector<std::string> many(20, "x");
  many[7] = "y";
  EXPECT_EQ(difference_of(many)->text,
            R"("x" on ranks 0, 1, 2, 3, 4, 5, 6, 8 and 11 more; "y" on rank 7)");
}

TEST(Probe, RoundsToTwoDigits) {
  EXPECT_EQ(detail::rounded(0), 1u);
  EXPECT_EQ(detail::rounded(99), 99u);
  EXPECT_EQ(detail::rounded(104), 100u);
  EXPECT_EQ(detail::rounded(4'872), 4'900u);
  EXPECT_EQ(detail::rounded(123'456), 120'000u);
}

TEST(HostName, ComesFromSettingsOrMachine) {
  EXPECT_EQ(host_name(on("rack1")), "rack1");
  const std::string own = host_name(settings{});
  EXPECT_EQ(own, host_name(settings{}));
  EXPECT_GT(own.size(), 30u);
  EXPECT_EQ(own.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace tandem
