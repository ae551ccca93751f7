#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <tandem/async.hpp>
#include <tandem/collectives.hpp>

#include "collectives/hosts.hpp"
#include "collectives/reference.hpp"
#include "plan/layout.hpp"

namespace tandem {
namespace {

using detail::layout;
using test::crossed;
using test::host_names;
using test::job;
using test::job_on;
using test::layouts;

using lengths = std::vector<std::size_t>;

/// Elements of each rank's block: several equal lengths, and unequal ones.
std::vector<lengths> lists(std::size_t ranks) {
  std::vector<lengths> all;
  for (const std::size_t each : {0u, 1u, 3u, 257u, 1500u}) all.emplace_back(ranks, each);
  lengths uneven;
  for (std::size_t r = 0; r < ranks; ++r) uneven.push_back(r % 3 == 1 ? 0 : 300 * r + 7);
  all.push_back(uneven);
  return all;
}

std::size_t sum_of(const lengths& of) {
  return std::accumulate(of.begin(), of.end(), std::size_t{0});
}

lengths in_bytes(lengths elements, std::size_t each) {
  for (std::size_t& one : elements) one *= each;
  return elements;
}

std::size_t offset_of(const lengths& of, int rank) {
  return std::accumulate(of.begin(), of.begin() + rank, std::size_t{0});
}

void expect_all_gathered(job& ranks, const lengths& counts, bool in_place) {
  std::vector<std::vector<std::uint16_t>> mine, all;
  std::vector<std::uint16_t> expected;
  for (int r = 0; r < ranks.size(); ++r) {
    const std::size_t count = counts[static_cast<std::size_t>(r)];
    mine.push_back(test::data_of<std::uint16_t>(r, count));
    expected.insert(expected.end(), mine.back().begin(), mine.back().end());
    all.emplace_back(sum_of(counts));
    std::copy(mine.back().begin(), mine.back().end(),
              all.back().begin() + static_cast<std::ptrdiff_t>(offset_of(counts, r)));
    if (!in_place) all.back().assign(all.back().size(), 0xabcd);
  }
  const lengths bytes = in_bytes(counts, sizeof(std::uint16_t));
  ASSERT_EQ(ranks.run([&](int r) {
    const auto me = static_cast<std::size_t>(r);
    const mutable_view whole(all[me]);
    const const_view own =
        in_place ? const_view(whole.part(offset_of(bytes, r), bytes[me])) : const_view(mine[me]);
    return all_gather_v(ranks.world(r), own, whole, bytes, algorithm::two_level);
  }),
            "");
  for (const auto& got : all) ASSERT_EQ(got, expected);
}

TEST(TwoLevelBlocks, AllGatherDeliversEveryBlock) {
  for (const host_names& hosts : layouts) {
    const std::unique_ptr<job> ranks = job_on(hosts);
    for (const lengths& counts : lists(hosts.size())) {
      SCOPED_TRACE(fmt::format("{} on {}", fmt::join(counts, " "), fmt::join(hosts, "")));
      for (const bool in_place : {true, false}) {
        expect_all_gathered(*ranks, counts, in_place);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

/// Expected result of rank r for an element with the inputs `x`.
template <class T, class Combine>
T in_documented_order(const Combine& combine, const layout& where, const std::vector<T>& x,
                      std::size_t r) {
  if (!where.two_levels()) return test::around_circle(combine, x, r + 1);
  if (where.equal()) {
    std::vector<T> of_host;
    for (const std::vector<int>& here : where.members) {
      std::vector<T> inputs;
      for (const int rank : here) inputs.push_back(x[static_cast<std::size_t>(rank)]);
      of_host.push_back(
          test::around_circle(combine, inputs, static_cast<std::size_t>(where.local_rank[r]) + 1));
    }
    return test::around_circle(combine, of_host, static_cast<std::size_t>(where.host[r]) + 1);
  }
  std::vector<T> in_order;
  std::size_t mine = 0;
  for (const std::vector<int>& here : where.members) {
    for (const int rank : here) {
      if (static_cast<std::size_t>(rank) == r) mine = in_order.size();
      in_order.push_back(x[static_cast<std::size_t>(rank)]);
    }
  }
  return test::around_circle(combine, in_order, mine + 1);
}

template <class T>
void expect_reduced(job& ranks, const host_names& hosts, reduction what, const lengths& counts,
                    bool in_place) {
  SCOPED_TRACE(
      fmt::format("{} of {} on {}", name(what.op), fmt::join(counts, " "), fmt::join(hosts, "")));
  std::vector<std::vector<T>> all, mine;
  for (int r = 0; r < ranks.size(); ++r) {
    all.push_back(test::data_of<T>(r, sum_of(counts)));
    mine.emplace_back(counts[static_cast<std::size_t>(r)]);
  }
  const std::vector<std::vector<T>> inputs = all;
  const lengths bytes = in_bytes(counts, sizeof(T));
  ASSERT_EQ(ranks.run([&](int r) {
    const auto me = static_cast<std::size_t>(r);
    const mutable_view whole(all[me]);
    const mutable_view own =
        in_place ? whole.part(offset_of(bytes, r), bytes[me]) : mutable_view(mine[me]);
    return reduce_scatter_v(ranks.world(r), whole, own, bytes, test::type_of<T>, what,
                            algorithm::two_level);
  }),
            "");
  const layout where(hosts);
  const bool scaled = what.op == reduce_op::premultiplied_sum;
  const reduce_op op = scaled || what.op == reduce_op::average ? reduce_op::sum : what.op;
  const auto combine = [op](T a, T b) { return test::apply(op, a, b); };
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    const std::size_t first = offset_of(counts, static_cast<int>(r));
    std::vector<T> expected(counts[r]);
    for (std::size_t e = 0; e < expected.size(); ++e) {
      std::vector<T> x;
      for (const std::vector<T>& of : inputs) {
        const T value = of[first + e];
        x.push_back(scaled ? static_cast<T>(value * static_cast<T>(what.factor)) : value);
      }
      expected[e] = in_documented_order(combine, where, x, r);
      if (what.op == reduce_op::average) expected[e] /= static_cast<T>(hosts.size());
    }
    const T* const got = in_place ? all[r].data() + first : mine[r].data();
    ASSERT_TRUE(expected.empty() || std::memcmp(got, expected.data(), bytes[r]) == 0) << r;
  }
  if (!in_place) {
    EXPECT_EQ(all, inputs);
  }
}

TEST(TwoLevelBlocks, ReduceScatterMatchesDocumentedOrderBitwise) {
  for (const host_names& hosts : layouts) {
    const std::unique_ptr<job> ranks = job_on(hosts);
    for (const lengths& counts : lists(hosts.size())) {
      for (const bool in_place : {true, false}) {
        expect_reduced<double>(*ranks, hosts, reduce_op::sum, counts, in_place);
        expect_reduced<double>(*ranks, hosts, reduce_op::average, counts, in_place);
        expect_reduced<double>(*ranks, hosts, premultiplied_sum(0.3), counts, in_place);
        expect_reduced<float>(*ranks, hosts, reduce_op::product, counts, in_place);
        expect_reduced<std::int32_t>(*ranks, hosts, reduce_op::maximum, counts, in_place);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

/// Each call with 6000 bytes of every rank.
void call(job& ranks, bool gathers, algorithm how) {
  const std::size_t n = static_cast<std::size_t>(ranks.size());
  std::vector<std::vector<double>> all(n, std::vector<double>(750 * n, 1));
  std::vector<std::vector<double>> mine(n, std::vector<double>(750, 1));
  ASSERT_EQ(ranks.run([&](int r) {
    const auto me = static_cast<std::size_t>(r);
    if (gathers) return all_gather(ranks.world(r), mine[me], all[me], how);
    return reduce_scatter(ranks.world(r), const_view(all[me]), mine[me], data_type::float64,
                          reduce_op::sum, how);
  }),
            "");
}

TEST(TwoLevelBlocks, MinimizeInterHostTraffic) {
  constexpr std::uint64_t block_bytes = 6000;
  for (const host_names& hosts : {layouts[0], layouts[1], layouts[2]}) {
    const std::uint64_t islands = static_cast<std::uint64_t>(layout(hosts).hosts());
    for (const bool gathers : {true, false}) {
      const std::unique_ptr<job> ranks = job_on(hosts);
      call(*ranks, gathers, algorithm::two_level);
      EXPECT_EQ(crossed(*ranks, hosts), (islands - 1) * hosts.size() * block_bytes);
    }
  }
  // A ring over unequal hosts, and a ring in rank order.
  const host_names& unequal = layouts[5];
  for (const bool gathers : {true, false}) {
    const std::unique_ptr<job> ordered = job_on(unequal), numbered = job_on(unequal);
    call(*ordered, gathers, algorithm::two_level);
    call(*numbered, gathers, algorithm::ring);
    EXPECT_EQ(crossed(*ordered, unequal), 3 * (unequal.size() - 1) * block_bytes);
    EXPECT_EQ(crossed(*numbered, unequal), 6 * (unequal.size() - 1) * block_bytes);
  }
}

TEST(TwoLevelBlocks, PlanSelectsThemForSlowLinks) {
  facts known;
  known.across = {"tcp", 0, 30'000, 125};
  for (const host_names& hosts : {layouts[1], layouts[5]}) {
    known.host_of_rank = hosts;
    const plan apart = plan::of(known, settings{});
    SCOPED_TRACE(apart.text());
    for (const collective what : {collective::all_gather, collective::reduce_scatter}) {
      EXPECT_EQ(apart.choose(what, 16u << 20).how, algorithm::two_level);
      EXPECT_NE(apart.choose(what, 8).how, algorithm::two_level);
    }
  }
}

struct buffers {
  std::vector<float> gathered, inputs, own, sum;
  explicit buffers(std::size_t n) : gathered(700 * n), inputs(700 * n, 1), own(700, 1), sum(700) {}
};

asio::awaitable<void> two_calls(communicator& among, buffers& data) {
  const const_view own(data.own), inputs(data.inputs);
  const mutable_view gathered(data.gathered), result(data.sum);
  co_await all_gather(among, own, gathered, algorithm::two_level);
  co_await reduce_scatter(among, inputs, result, data_type::float32, reduce_op::sum,
                          algorithm::two_level);
}

TEST(TwoLevelBlocks, LostRankAtAnyStepEndsAllRanks) {
  for (const host_names& hosts : {layouts[1], layouts[4]}) {
    const auto begin = [&hosts](job& ranks) {
      auto data = std::make_unique<std::vector<buffers>>(hosts.size(), buffers(hosts.size()));
      ranks.start([&ranks, all = data.get()](int r) {
        return two_calls(ranks.world(r), (*all)[static_cast<std::size_t>(r)]);
      });
      return data;
    };
    EXPECT_GT(test::lose_after_any_step(hosts, begin), 15);
  }
}

TEST(TwoLevelBlocks, ConcurrentCallsDoNotInterfere) {
  constexpr int calls = 12;
  const std::unique_ptr<job> ranks = job_on(layouts[1]);
  std::vector<std::vector<buffers>> data(4);
  for (auto& of_rank : data) {
    for (int i = 0; i < calls; ++i) {
      of_rank.emplace_back(4u);
      of_rank.back().own.assign(700, static_cast<float>(i));
      of_rank.back().inputs.assign(2800, static_cast<float>(i));
    }
  }
  ASSERT_EQ(ranks->run([&](int r) {
    std::vector<asio::awaitable<void>> all;
    communicator& world = ranks->world(r);
    for (buffers& one : data[static_cast<std::size_t>(r)]) {
      const const_view own(one.own), inputs(one.inputs);
      all.push_back(all_gather(world, own, one.gathered, algorithm::two_level));
      all.push_back(reduce_scatter(world, inputs, one.sum, data_type::float32, reduce_op::sum,
                                   algorithm::two_level));
    }
    return when_all(std::move(all));
  }),
            "");
  for (const auto& of_rank : data) {
    for (int i = 0; i < calls; ++i) {
      const buffers& one = of_rank[static_cast<std::size_t>(i)];
      for (const float x : one.gathered) ASSERT_EQ(x, static_cast<float>(i));
      for (const float x : one.sum) ASSERT_EQ(x, static_cast<float>(4 * i));
    }
  }
}

}  // namespace
}  // namespace tandem
