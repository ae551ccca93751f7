#include <gtest/gtest.h>

#include <cstring>
#include <tandem/async.hpp>
#include <tandem/collectives.hpp>
#include <tandem/plan.hpp>

#include "collectives/hosts.hpp"
#include "collectives/reference.hpp"
#include "communicator/group.hpp"
#include "partition/slices.hpp"
#include "plan/layout.hpp"

namespace tandem {
namespace {

using detail::layout;
using test::crossed;
using test::host_names;
using test::job;
using test::job_on;
using test::layouts;
using test::nothing;
using test::small_pieces;

/// Expected result of the element with this index, of `count`, for the inputs of the ranks.
template <class T, class Combine>
T in_two_levels(const Combine& combine, const layout& where, const std::vector<T>& x,
                std::size_t index, std::size_t count) {
  const auto segment_of = [](std::size_t i, std::size_t of, std::size_t parts) {
    std::size_t s = 0;
    while (i >= of * (s + 1) / parts) ++s;
    return s;
  };
  if (!where.two_levels()) {
    return test::around_circle(combine, x, segment_of(index, count, x.size()));
  }
  const std::size_t slices =
      detail::slice_count(count * sizeof(T), small_pieces().collective_chunk_bytes);
  const std::size_t k = segment_of(index, count, slices);
  index -= count * k / slices;
  count = count * (k + 1) / slices - count * k / slices;
  std::vector<T> of_host;
  const std::size_t segments = where.equal() ? where.max_ranks_per_host() : 1;
  const std::size_t s = segment_of(index, count, segments);
  for (const std::vector<int>& here : where.members) {
    std::vector<T> inputs;
    for (const int rank : here) inputs.push_back(x[static_cast<std::size_t>(rank)]);
    if (where.equal()) {
      of_host.push_back(test::around_circle(combine, inputs, s + 1));
    } else {
      T result = inputs.back();
      for (std::size_t i = inputs.size() - 1; i-- > 0;) result = combine(inputs[i], result);
      of_host.push_back(result);
    }
  }
  const std::size_t from = count * s / segments, to = count * (s + 1) / segments;
  return test::around_circle(combine, of_host, segment_of(index - from, to - from, of_host.size()));
}

template <class T>
void expect_documented_order(job& ranks, const host_names& hosts, reduction what, std::size_t count,
                             bool in_place) {
  SCOPED_TRACE(fmt::format("{} of {} on hosts {}", name(what.op), count, fmt::join(hosts, "")));
  std::vector<std::vector<T>> data, results;
  for (int r = 0; r < ranks.size(); ++r) {
    data.push_back(test::data_of<T>(r, count));
    results.emplace_back(count);
  }
  const std::vector<std::vector<T>> inputs = data;
  ASSERT_EQ(ranks.run([&](int r) {
    const auto mine = static_cast<std::size_t>(r);
    if (in_place) {
      return all_reduce(ranks.world(r), data[mine], test::type_of<T>, what, algorithm::two_level);
    }
    return all_reduce(ranks.world(r), const_view(data[mine]), results[mine], test::type_of<T>, what,
                      algorithm::two_level);
  }),
            "");
  const layout where(hosts);
  const bool scaled = what.op == reduce_op::premultiplied_sum;
  const bool sums = scaled || what.op == reduce_op::average;
  std::vector<T> expected(count);
  for (std::size_t e = 0; e < count; ++e) {
    std::vector<T> x;
    for (const std::vector<T>& of_rank : inputs) {
      x.push_back(scaled ? static_cast<T>(of_rank[e] * static_cast<T>(what.factor)) : of_rank[e]);
    }
    const reduce_op op = sums ? reduce_op::sum : what.op;
    const auto combine = [op](T a, T b) { return test::apply(op, a, b); };
    expected[e] = in_two_levels(combine, where, x, e, count);
    if (what.op == reduce_op::average) expected[e] /= static_cast<T>(ranks.size());
  }
  for (const std::vector<T>& got : in_place ? data : results) {
    ASSERT_TRUE(count == 0 || std::memcmp(got.data(), expected.data(), count * sizeof(T)) == 0);
  }
  if (!in_place) {
    EXPECT_EQ(data, inputs);
  }
}

TEST(TwoLevel, AllReduceMatchesDocumentedOrderBitwise) {
  for (const host_names& hosts : layouts) {
    const std::unique_ptr<job> ranks = job_on(hosts);
    for (const std::size_t count : {0u, 1u, 2u, 5u, 1000u, 4099u}) {
      for (const bool in_place : {true, false}) {
        expect_documented_order<double>(*ranks, hosts, reduce_op::sum, count, in_place);
        expect_documented_order<double>(*ranks, hosts, reduce_op::minimum, count, in_place);
        expect_documented_order<double>(*ranks, hosts, reduce_op::average, count, in_place);
        expect_documented_order<double>(*ranks, hosts, premultiplied_sum(0.3), count, in_place);
        expect_documented_order<float>(*ranks, hosts, reduce_op::product, count, in_place);
        expect_documented_order<std::int32_t>(*ranks, hosts, reduce_op::sum, count, in_place);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(TwoLevel, BroadcastReachesEveryRankFromEveryRoot) {
  for (const host_names& hosts : layouts) {
    const std::unique_ptr<job> ranks = job_on(hosts);
    for (int root = 0; root < ranks->size(); ++root) {
      for (const std::size_t bytes : {0u, 1u, 1024u, 10'001u}) {
        SCOPED_TRACE(fmt::format("{} bytes from {} on {}", bytes, root, fmt::join(hosts, "")));
        std::vector<std::vector<std::uint8_t>> data(static_cast<std::size_t>(ranks->size()));
        for (auto& of_rank : data) of_rank.resize(bytes);
        std::vector<std::uint8_t>& source = data[static_cast<std::size_t>(root)];
        for (std::size_t i = 0; i < bytes; ++i)
          source[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
        ASSERT_EQ(ranks->run([&](int r) {
          return broadcast(ranks->world(r), data[static_cast<std::size_t>(r)], root,
                           algorithm::two_level);
        }),
                  "");
        for (const auto& of_rank : data) ASSERT_EQ(of_rank, source);
      }
    }
  }
}

TEST(TwoLevel, MinimizesInterHostTraffic) {
  constexpr std::size_t count = 6000;
  constexpr std::size_t bytes = count * sizeof(double);
  for (const host_names& hosts : {layouts[0], layouts[1], layouts[2]}) {
    const std::uint64_t islands = static_cast<std::uint64_t>(layout(hosts).hosts());
    for (const algorithm how : {algorithm::two_level, algorithm::ring}) {
      const std::unique_ptr<job> ranks = job_on(hosts);
      std::vector<std::vector<double>> data(hosts.size(), std::vector<double>(count, 1));
      ASSERT_EQ(ranks->run([&](int r) {
        return all_reduce(ranks->world(r), data[static_cast<std::size_t>(r)], data_type::float64,
                          reduce_op::sum, how);
      }),
                "");
      const std::uint64_t min_bytes = 2 * (islands - 1) * bytes;  // of all hosts together
      if (how == algorithm::two_level) {
        EXPECT_EQ(crossed(*ranks, hosts), min_bytes);
      } else {
        EXPECT_GE(crossed(*ranks, hosts), min_bytes + min_bytes / 2);
      }
    }
    const std::unique_ptr<job> ranks = job_on(hosts);
    std::vector<std::vector<double>> data(hosts.size(), std::vector<double>(count, 1));
    ASSERT_EQ(ranks->run([&](int r) {
      return broadcast(ranks->world(r), data[static_cast<std::size_t>(r)], 1, algorithm::two_level);
    }),
              "");
    EXPECT_EQ(crossed(*ranks, hosts), (islands - 1) * bytes);
  }
}

TEST(TwoLevel, PlanSelectsItForSlowLinks) {
  facts known;
  known.host_of_rank = {"a", "b", "a", "b"};
  known.across = {"tcp", 0, 30'000, 125};
  const plan apart = plan::of(known, settings{});
  EXPECT_EQ(apart.choose(collective::all_reduce, 16u << 20).how, algorithm::two_level);
  EXPECT_EQ(apart.choose(collective::broadcast, 16u << 20).how, algorithm::two_level);
  EXPECT_NE(apart.choose(collective::all_reduce, 8).how, algorithm::two_level);
  known.host_of_rank = {"a", "a", "a", "a"};
  const plan together = plan::of(known, settings{});
  for (const plan_rule& rule : together.rules()) {
    EXPECT_NE(rule.how, algorithm::two_level);
  }
}

TEST(TwoLevel, LostRankIsNamedOnOtherRanks) {
  for (const host_names& hosts : {layouts[1], layouts[4]}) {
    for (int lost = 0; lost < static_cast<int>(hosts.size()); ++lost) {
      SCOPED_TRACE(lost);
      const std::unique_ptr<job> ranks = job_on(hosts);
      std::vector<std::vector<float>> data(hosts.size(), std::vector<float>(3000));
      ranks->start([&](int r) {
        if (r == lost) return nothing();
        return all_reduce(ranks->world(r), data[static_cast<std::size_t>(r)], data_type::float32,
                          reduce_op::sum, algorithm::two_level);
      });
      ranks->context.poll();
      ranks->worlds[static_cast<std::size_t>(lost)].reset();
      ranks->fabrics[static_cast<std::size_t>(lost)].reset();
      ASSERT_TRUE(ranks->finish());
      for (int r = 0; r < ranks->size(); ++r) {
        if (r == lost) continue;
        EXPECT_EQ(ranks->code(r), errc::peer_lost) << ranks->text(r);
        EXPECT_EQ(ranks->why(r).peer, lost) << ranks->text(r);
      }
    }
  }
}

asio::awaitable<void> two_calls(communicator& among, std::vector<float>& data) {
  co_await all_reduce(among, data, data_type::float32, reduce_op::sum, algorithm::two_level);
  co_await broadcast(among, data, 1, algorithm::two_level);
}

TEST(TwoLevel, LostRankAtAnyStepEndsAllRanks) {
  for (const host_names& hosts : {layouts[1], layouts[4]}) {
    const auto begin = [&hosts](job& ranks) {
      auto data = std::make_unique<std::vector<std::vector<float>>>(hosts.size(),
                                                                    std::vector<float>(3000, 1));
      ranks.start([&ranks, all = data.get()](int r) {
        return two_calls(ranks.world(r), (*all)[static_cast<std::size_t>(r)]);
      });
      return data;
    };
    EXPECT_GT(test::lose_after_any_step(hosts, begin), 50);
  }
}

TEST(TwoLevel, CancellationOnOneRankFailsOthers) {
  const std::unique_ptr<job> ranks = job_on(layouts[1]);
  std::vector<std::vector<float>> data(4, std::vector<float>(3000));
  ranks->start([&](int r) {
    if (r == 3) return nothing();
    asio::awaitable<void> call =
        all_reduce(ranks->world(r), data[static_cast<std::size_t>(r)], data_type::float32,
                   reduce_op::sum, algorithm::two_level);
    if (r != 2) return call;
    return with_deadline(std::chrono::milliseconds(5), std::move(call), "a short try");
  });
  ASSERT_TRUE(ranks->finish());
  EXPECT_EQ(ranks->code(2), errc::timed_out) << ranks->text(2);
  for (const int r : {0, 1}) {
    EXPECT_EQ(ranks->code(r), errc::message_cancelled) << ranks->text(r);
    EXPECT_EQ(ranks->why(r).peer, 2) << ranks->text(r);
  }
}

TEST(TwoLevel, ErrorNamesTheLevel) {
  const std::unique_ptr<job> ranks = job_on(layouts[0]);
  std::vector<std::vector<float>> data(4, std::vector<float>(3000));
  ranks->start([&](int r) {
    if (r == 1) return nothing();
    return all_reduce(ranks->world(r), data[static_cast<std::size_t>(r)], data_type::float32,
                      reduce_op::sum, algorithm::two_level);
  });
  ranks->context.poll();
  ranks->worlds[1].reset();
  ranks->fabrics[1].reset();
  ASSERT_TRUE(ranks->finish());
  EXPECT_NE(ranks->text(0).find("all_reduce, inside the host, ring step 1 of 1"), std::string::npos)
      << ranks->text(0);
}

TEST(TwoLevel, MismatchedCallIsNamed) {
  const std::unique_ptr<job> ranks = job_on(layouts[1]);
  std::vector<std::vector<float>> data(4, std::vector<float>(3000));
  ranks->start([&](int r) {
    const reduce_op op = r == 1 ? reduce_op::product : reduce_op::sum;
    return all_reduce(ranks->world(r), data[static_cast<std::size_t>(r)], data_type::float32, op,
                      algorithm::two_level);
  });
  ASSERT_TRUE(ranks->finish());
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(ranks->code(r), errc::call_mismatch) << ranks->text(r);
    EXPECT_NE(ranks->text(r).find("(two_level, float32, product)"), std::string::npos)
        << ranks->text(r);
  }
}

TEST(TwoLevel, ConcurrentCallsDoNotInterfere) {
  constexpr int calls = 20;
  const std::unique_ptr<job> ranks = job_on(layouts[1]);
  std::vector<std::vector<std::vector<std::int32_t>>> data(4);
  for (auto& of_rank : data) {
    for (int i = 0; i < calls; ++i)
      of_rank.emplace_back(500 + 100 * static_cast<std::size_t>(i), i);
  }
  ASSERT_EQ(ranks->run([&](int r) {
    std::vector<asio::awaitable<void>> all;
    for (std::vector<std::int32_t>& one : data[static_cast<std::size_t>(r)]) {
      all.push_back(
          all_reduce(ranks->world(r), one, data_type::int32, reduce_op::sum, algorithm::two_level));
    }
    return when_all(std::move(all));
  }),
            "");
  for (const auto& of_rank : data) {
    for (int i = 0; i < calls; ++i) {
      for (const std::int32_t sum : of_rank[static_cast<std::size_t>(i)]) ASSERT_EQ(sum, 4 * i);
    }
  }
}

}  // namespace
}  // namespace tandem
