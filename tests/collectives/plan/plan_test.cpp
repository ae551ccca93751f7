#include <gtest/gtest.h>

#include <set>
#include <tandem/plan.hpp>

#include "plan/cost.hpp"
#include "plan/steps.hpp"

namespace tandem {
namespace {

using detail::layout;
using detail::predict_ns;
using detail::steps_of;

facts cluster(std::vector<std::string> hosts, std::uint64_t across_latency_ns = 30'000,
              std::uint64_t across_bytes_per_us = 1'250) {
  facts known;
  known.host_of_rank = std::move(hosts);
  known.across.latency_ns = across_latency_ns;
  known.across.bytes_per_us = across_bytes_per_us;
  return known;
}

std::vector<std::string> hosts_of(int hosts, int ranks_each) {
  std::vector<std::string> result;
  for (int r = 0; r < hosts * ranks_each; ++r) {
    result.push_back(std::string(1, static_cast<char>('a' + r / ranks_each)));
  }
  return result;
}

/// Length above which all_reduce is bound by bandwidth rather than latency.
std::size_t latency_limit(const plan& p) {
  for (const plan_rule& rule : p.rules()) {
    if (rule.what != collective::all_reduce) continue;
    const bool few = rule.how == algorithm::recursive_doubling || rule.how == algorithm::direct;
    if (!few) return rule.from_bytes;
  }
  return static_cast<std::size_t>(-1);
}

void expect_complete(const plan& p) {
  collective last = collective::all_to_all;
  std::size_t operations = 0, bytes = 0;
  for (const plan_rule& rule : p.rules()) {
    if (operations == 0 || rule.what != last) {
      ++operations;
      EXPECT_EQ(rule.from_bytes, 0u) << name(rule.what);
    } else {
      EXPECT_GT(rule.from_bytes, bytes) << name(rule.what);
    }
    last = rule.what;
    bytes = rule.from_bytes;
    EXPECT_NE(rule.how, algorithm::automatic);
    EXPECT_TRUE(is_defined(rule.what, rule.how)) << name(rule.what) << ' ' << name(rule.how);
    EXPECT_GT(rule.chunk_bytes, 0u);
    EXPECT_FALSE(rule.why.empty());
  }
  EXPECT_EQ(operations, collective_count);
}

TEST(Plan, HasADefinedAlgorithmForEveryOperationAndLength) {
  for (const int hosts : {1, 2, 3, 5}) {
    for (const int each : {1, 2, 3, 8}) {
      expect_complete(plan::of(cluster(hosts_of(hosts, each)), settings{}));
    }
  }
  expect_complete(plan::of(cluster({"a", "b", "a", "c", "c", "c"}), settings{}));
  for (const int ranks : {1, 2, 7}) expect_complete(plan::standard(ranks, settings{}));
}

TEST(Plan, ChoosesByLatencyAndRate) {
  const auto latency_bound_below = [](std::uint64_t latency_ns, std::uint64_t bytes_per_us) {
    return latency_limit(plan::of(cluster(hosts_of(8, 1), latency_ns, bytes_per_us), settings{}));
  };
  const std::size_t usual = latency_bound_below(30'000, 1'250);
  EXPECT_GT(usual, 1024u);
  EXPECT_LT(usual, 1u << 28);
  EXPECT_GE(latency_bound_below(300'000, 1'250), usual);  // latency weighs more
  EXPECT_LT(latency_bound_below(3'000, 1'250), usual);
  EXPECT_GE(latency_bound_below(30'000, 12'500), usual);  // bytes weigh less
  EXPECT_LT(latency_bound_below(30'000, 125), usual);
}

TEST(Plan, DoesNotDependOnHostNames) {
  const plan one = plan::of(cluster({"a", "a", "b", "b"}), settings{});
  const plan other = plan::of(cluster({"z", "z", "y", "y"}), settings{});
  EXPECT_EQ(one.text(), other.text());
  EXPECT_EQ(one.hash(), other.hash());
  const plan apart = plan::of(cluster({"a", "b", "a", "b"}), settings{});
  EXPECT_NE(one.hash(), apart.hash()) << "ranks share other hosts";
}

facts two_devices() {
  facts known = cluster({"a", "a"});
  known.within = {"shm", 0, 9'500, 380'000};
  known.cores = 2;
  known.use_devices();
  return known;
}

/// Each reduction is a kernel that is waited for, so few long ones are fastest; two H200 took 27 us
/// for 1 MiB by recursive doubling, 80 us by a ring with the host's chunks.
TEST(Plan, UsesFewReductionKernelsOnDevices) {
  const plan here = plan::of(two_devices(), settings{});
  expect_complete(here);
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{1} << 20, std::size_t{16} << 20}) {
    EXPECT_EQ(here.choose(collective::all_reduce, bytes).how, algorithm::recursive_doubling);
  }
  const plan_rule& rule = here.choose(collective::all_reduce, 256u << 20);
  EXPECT_EQ(rule.how, algorithm::ring);
  EXPECT_GE(rule.chunk_bytes, 8u << 20);
}

TEST(Plan, PredictsMeasuredTimeOfTwoDevices) {
  const facts known = two_devices();
  const layout where(known.host_of_rank);
  const auto predicted_us = [&](algorithm how, std::size_t bytes) {
    const auto steps = steps_of(collective::all_reduce, how, where);
    return static_cast<double>(predict_ns(steps, known, bytes, 16u << 20)) / 1000;
  };
  // Within 25 % of the measurement.
  EXPECT_NEAR(predicted_us(algorithm::recursive_doubling, 20u << 20), 100, 25);
  EXPECT_NEAR(predicted_us(algorithm::recursive_doubling, 256u << 20), 981, 245);
  EXPECT_NEAR(predicted_us(algorithm::halving_doubling, 256u << 20), 915, 229);
  EXPECT_NEAR(predicted_us(algorithm::ring, 256u << 20), 773, 193);
}

constexpr collective reducing[] = {collective::all_reduce, collective::reduce,
                                   collective::reduce_scatter};

/// The order in which each length is combined.
std::vector<int> orders_of(const plan& p) {
  std::vector<int> orders;
  for (const collective what : reducing) {
    for (std::size_t bytes = 8; bytes <= 1u << 30; bytes *= 2) {
      orders.push_back(detail::order_of(what, p.choose(what, bytes).how));
    }
  }
  return orders;
}

/// Any measurement, of the fastest memory to a slow link.
std::vector<facts> measurements(std::vector<std::string> hosts, bool on_devices) {
  std::vector<facts> result;
  for (const std::uint64_t latency_ns : {100u, 700u, 5'000u, 80'000u, 3'000'000u}) {
    for (const std::uint64_t bytes_per_us : {5u, 120u, 1'200u, 12'000u, 400'000u}) {
      facts known = cluster(hosts, 2 * latency_ns, bytes_per_us);
      known.within.latency_ns = latency_ns;
      known.within.bytes_per_us = 2 * bytes_per_us;
      known.probed = true;
      if (on_devices) known.use_devices();
      result.push_back(known);
    }
  }
  return result;
}

TEST(Plan, TwoRanksHaveOneOrder) {
  settings fastest;
  fastest.reproducible = false;
  for (const int hosts : {1, 2}) {
    for (const facts& known : measurements(hosts_of(hosts, 2 / hosts), false)) {
      const plan usual = plan::of(known, settings{});
      const plan free = plan::of(known, fastest);
      for (const collective what : reducing) {
        for (std::size_t bytes = 8; bytes <= 1u << 30; bytes *= 2) {
          EXPECT_EQ(usual.choose(what, bytes).how, free.choose(what, bytes).how);
        }
      }
    }
  }
}

TEST(Plan, OrderOfReductionsDoesNotFollowMeasurements) {
  settings fastest;
  fastest.reproducible = false;
  for (const int hosts : {1, 2, 3}) {
    for (const int each : {1, 2, 4, 8}) {
      if (hosts * each <= 2) continue;
      for (const bool on_devices : {false, true}) {
        const std::vector<facts> all = measurements(hosts_of(hosts, each), on_devices);
        const std::vector<int> expected = orders_of(plan::of(all[0], settings{}));
        bool differs = false;
        for (const facts& known : all) {
          expect_complete(plan::of(known, settings{}));
          ASSERT_EQ(orders_of(plan::of(known, settings{})), expected) << hosts << "x" << each;
          differs = differs || orders_of(plan::of(known, fastest)) != expected;
        }
        EXPECT_TRUE(differs) << hosts << "x" << each;
      }
    }
  }
}

/// A board that could not be shared, too, changes no bits.
TEST(Plan, OrderOfReductionsDoesNotDependOnBoard) {
  for (const int ranks : {2, 3, 4, 8, 16, 17}) {
    facts known = cluster(hosts_of(1, ranks));
    known.within.channel = "shm";
    known.probed = known.has_board = true;
    const std::vector<int> expected = orders_of(plan::of(known, settings{}));
    known.has_board = false;
    EXPECT_EQ(orders_of(plan::of(known, settings{})), expected) << ranks;
  }
}

TEST(Plan, OrderOfReductionsFollowsAProfileAndPins) {
  facts known = cluster(hosts_of(1, 8), 1, 1);
  known.within = {"tcp", 0, 1'000'000, 100'000};
  known.probed = true;
  const std::vector<int> usual = orders_of(plan::of(known, settings{}));
  known.probed = false;
  EXPECT_NE(orders_of(plan::of(known, settings{})), usual);
  known.probed = true;
  settings pinned;
  pinned.plan = "all_reduce=ring";
  EXPECT_EQ(plan::of(known, pinned).choose(collective::all_reduce, 8).how, algorithm::ring);
}

/// What leaves the bits alone follows the probe.
TEST(Plan, ChunksOfReductionsFollowMeasurements) {
  std::set<std::size_t> chunks;
  for (const facts& known : measurements(hosts_of(1, 4), false)) {
    chunks.insert(plan::of(known, settings{}).choose(collective::reduce, 1u << 30).chunk_bytes);
  }
  EXPECT_GT(chunks.size(), 1u);
}

TEST(Plan, IgnoresCoresForDevices) {
  facts known = two_devices();
  known.host_of_rank = hosts_of(1, 8);
  const plan few = plan::of(known, settings{});
  known.cores = 0;
  EXPECT_EQ(few.text(), plan::of(known, settings{}).text());
}

TEST(Plan, PinsApplyToDevices) {
  settings options;
  options.plan = "all_reduce=direct";
  EXPECT_EQ(plan::of(two_devices(), options).choose(collective::all_reduce, 1u << 28).how,
            algorithm::direct);
}

TEST(Plan, PredictsEveryChoice) {
  const facts known = cluster(hosts_of(4, 2));
  const layout where(known.host_of_rank);
  const plan chosen = plan::of(known, settings{});
  for (const auto what : {collective::all_reduce, collective::broadcast, collective::all_gather}) {
    std::uint64_t before = 0;
    for (std::size_t bytes = 8; bytes <= 1u << 30; bytes *= 2) {
      const plan_rule& rule = chosen.choose(what, bytes);
      const std::uint64_t time =
          predict_ns(steps_of(what, rule.how, where), known, bytes, rule.chunk_bytes);
      EXPECT_GE(time + time / 10, before) << name(what) << " gets faster with length " << bytes;
      before = time;
      for (const algorithm how : algorithms_of(what)) {
        const std::vector<detail::step> steps = steps_of(what, how, where);
        if (steps.empty()) continue;
        const std::uint64_t other = predict_ns(steps, known, bytes, rule.chunk_bytes);
        EXPECT_LE(time, other + other / 50 + 1) << name(what) << ' ' << name(how) << ' ' << bytes;
      }
    }
  }
}

TEST(Plan, MatchesTextbookCosts) {
  facts known = facts::one_host(8);
  known.within.latency_ns = 10'000;
  known.within.bytes_per_us = 1'000;  // 1 ns a byte
  known.combine_bytes_per_us = 1'000'000'000;
  const layout where(known.host_of_rank);
  const auto time = [&](collective what, algorithm how, std::uint64_t bytes) {
    return predict_ns(steps_of(what, how, where), known, bytes, 1u << 30);
  };
  constexpr std::uint64_t m = 64'000;  // nothing is announced
  const auto near = [](std::uint64_t got, std::uint64_t expected) {
    return got >= expected && got < expected + expected / 100 + 200;
  };
  // Thakur, Rabenseifner and Gropp 2005: log n (latency + m / rate), 2 (n - 1) latency + 2 (n - 1)
  // / n m / rate, 2 log n latency + the same.
  EXPECT_TRUE(
      near(time(collective::all_reduce, algorithm::recursive_doubling, m), 3 * (10'000 + m)));
  EXPECT_TRUE(near(time(collective::all_reduce, algorithm::ring, m), 14 * 10'000 + 14 * m / 8));
  EXPECT_TRUE(
      near(time(collective::all_reduce, algorithm::halving_doubling, m), 6 * 10'000 + 14 * m / 8));
  EXPECT_TRUE(near(time(collective::broadcast, algorithm::tree, m), 3 * (10'000 + m)));
  EXPECT_TRUE(near(time(collective::all_gather, algorithm::bruck, m), 3 * 10'000 + 7 * m / 8));
  EXPECT_TRUE(near(time(collective::all_gather, algorithm::ring, m), 7 * 10'000 + 7 * m / 8));
  EXPECT_TRUE(near(time(collective::gather, algorithm::tree, m), 3 * 10'000 + 7 * m / 8));
  EXPECT_TRUE(near(time(collective::all_to_all, algorithm::bruck, m), 3 * (10'000 + m / 2)));
  EXPECT_TRUE(near(time(collective::all_to_all, algorithm::pairwise, m), 7 * (10'000 + m / 8)));
  EXPECT_TRUE(near(time(collective::barrier, algorithm::direct, 0), 3 * 10'000));
  // An announced message takes one more round trip, and three until it is at full rate.
  EXPECT_TRUE(near(time(collective::all_reduce, algorithm::recursive_doubling, 100 * m),
                   3 * (6 * 10'000 + 100 * m)));
  // Bruck's algorithm rotates blocks in memory, which matters if memory is no faster than the link.
  known.combine_bytes_per_us = 1'000;
  EXPECT_TRUE(near(time(collective::all_gather, algorithm::bruck, m), 3 * 10'000 + 15 * m / 8));
  EXPECT_TRUE(
      near(time(collective::all_to_all, algorithm::bruck, m), 3 * (10'000 + m / 2) + 5 * m));
}

TEST(Steps, CountInterHostTraffic) {
  const layout blocks(hosts_of(2, 2));
  const layout in_turn({"a", "b", "a", "b"});
  // A ring ordered by hosts sends one message at a time from each host, other orders send all.
  const auto ring = steps_of(collective::all_reduce, algorithm::ring, blocks);
  ASSERT_EQ(ring.size(), 2u);
  EXPECT_EQ(ring[0].times, 3u);
  EXPECT_EQ(ring[0].inside, 1u);
  EXPECT_EQ(ring[0].crossing, 1u);
  EXPECT_TRUE(ring[0].combines);
  EXPECT_FALSE(ring[1].combines);
  EXPECT_EQ(describe(ring), "6 steps, 1.50 of the data through a host's link");
  EXPECT_EQ(describe(steps_of(collective::all_reduce, algorithm::ring, in_turn)),
            "6 steps, 3.00 of the data through a host's link");
  const auto direct = steps_of(collective::all_to_all, algorithm::direct, blocks);
  ASSERT_EQ(direct.size(), 1u);
  EXPECT_EQ(direct[0].inside, 1u);
  EXPECT_EQ(direct[0].outside, 2u);
  EXPECT_EQ(direct[0].crossing, 4u);
}

TEST(Plan, SharesHostLinkAmongRanks) {
  constexpr std::uint64_t bytes = 16u << 20, chunk = 512 * 1024;
  const facts by_host = cluster(hosts_of(2, 2), 30'000, 125);
  const facts in_turn = cluster({"a", "b", "a", "b"}, 30'000, 125);
  const auto ring_ns = [](const facts& known) {
    const layout where(known.host_of_rank);
    return predict_ns(steps_of(collective::all_reduce, algorithm::ring, where), known, bytes,
                      chunk);
  };
  EXPECT_GT(ring_ns(in_turn), ring_ns(by_host) * 19 / 10);
  EXPECT_LT(ring_ns(in_turn), ring_ns(by_host) * 21 / 10);
}

TEST(Plan, RanksSharingCoresAreSerialized) {
  facts known = facts::one_host(4);
  known.within = {"tcp", 0, 5'000, 4'000};
  const auto algorithm_with = [&known](std::uint64_t cores) {
    known.cores = cores;
    return plan::of(known, settings{}).choose(collective::broadcast, 1u << 20).how;
  };
  EXPECT_EQ(algorithm_with(0), algorithm::chain);
  EXPECT_EQ(algorithm_with(8), algorithm::chain);
  EXPECT_EQ(algorithm_with(2), algorithm::tree);
}

TEST(Steps, FoldRanksBeyondPowerOfTwo) {
  const auto steps =
      steps_of(collective::all_reduce, algorithm::recursive_doubling, layout(hosts_of(1, 6)));
  std::uint64_t count = 0;
  for (const detail::step& s : steps) count += s.times;
  EXPECT_EQ(count, 4u);  // fold, two steps of doubling, unfold
  EXPECT_FALSE(steps.back().combines);
}

TEST(Layout, NumbersHostsByTheirFirstRanks) {
  const layout where({"z", "a", "z", "b", "a", "z"});
  EXPECT_EQ(where.host, (std::vector<int>{0, 1, 0, 2, 1, 0}));
  EXPECT_EQ(where.local_rank, (std::vector<int>{0, 0, 1, 0, 1, 2}));
  EXPECT_EQ(where.members[0], (std::vector<int>{0, 2, 5}));
  EXPECT_TRUE(where.two_levels());
  EXPECT_FALSE(where.equal());
  EXPECT_TRUE(layout(hosts_of(3, 2)).equal());
  EXPECT_FALSE(layout(hosts_of(1, 4)).two_levels());
  EXPECT_FALSE(layout(hosts_of(4, 1)).two_levels());
}

}  // namespace
}  // namespace tandem
