// Minimum and maximum with NaN on some rank and with signed zeros: every position, algorithm and
// type.
#include <gtest/gtest.h>

#include <tandem/detail/board.hpp>

#include "collectives/hosts.hpp"
#include "collectives/nan_call.hpp"

namespace tandem {
namespace {

using test::data_of_nan_call;
using test::job;
using test::nan_call;
using test::nan_cases;

void expect_right(job& ranks, const nan_call& c) {
  SCOPED_TRACE(text(c, ranks.size()));
  data_of_nan_call data(c, ranks.size());
  const auto here = [](int, mutable_view view) { return view; };
  ASSERT_EQ(ranks.run([&](int r) { return data.call(ranks.world(r), here); }), "");
  ASSERT_EQ(data.wrong(), "");
}

/// For each possible root.
void expect_right_for_roots(job& ranks, nan_call c) {
  const int roots = c.what == collective::reduce ? ranks.size() : 1;
  for (c.root = 0; c.root < roots; ++c.root) {
    expect_right(ranks, c);
    if (testing::Test::HasFatalFailure()) return;
  }
}

/// Each segment of a ring contains every case.
void expect_all(job& ranks, bool in_two_levels) {
  for (const data_type type : test::floating_types) {
    const std::size_t cases = nan_cases(type, ranks.size()).count();
    for (const reduce_op op : test::extremes) {
      for (const collective what : test::combining) {
        const std::size_t segments = what == collective::all_reduce ? ranks.worlds.size() : 1;
        for (const algorithm how : algorithms_of(what)) {
          if ((how == algorithm::two_level) != in_two_levels) continue;
          expect_right_for_roots(ranks, {what, how, type, op, 0, segments * cases});
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(NanOfOneRank, ReachesAllByEveryAlgorithm) {
  for (const int n : {1, 2, 3, 4, 5}) {
    job ranks(n, test::small_pieces());
    expect_all(ranks, false);
  }
}

TEST(NanOfOneRank, ReachesAllOnTwoLevels) {
  for (const test::host_names& hosts : test::layouts) {
    const std::unique_ptr<job> ranks = test::job_on(hosts);
    expect_all(*ranks, true);
  }
}

TEST(NanOfOneRank, ReachesAllOverABoard) {
  const auto& kinds = test::fabric_kinds();
  const auto& shm = *std::ranges::find(kinds, "shm", &test::fabric_kind::name);
  for (const int n : {2, 5}) {
    job ranks(shm, n, test::small_pieces());
    for (const data_type type : test::floating_types) {
      const std::size_t cases = nan_cases(type, n).count();
      const std::size_t at_once = board::max_bytes / bytes_of(type) / static_cast<std::size_t>(n);
      for (std::size_t first = 0; first < cases; first += at_once) {
        for (const reduce_op op : test::extremes) {
          for (const collective what : test::combining) {
            const nan_call c{
                what, algorithm::board, type, op, first, std::min(at_once, cases - first)};
            expect_right_for_roots(ranks, c);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

/// Regression test with small explicit inputs.
TEST(NanOfOneRank, PreservesNanAndExtremes) {
  const float nan = __builtin_nanf("");
  for (const std::vector<float>& inputs : {std::vector<float>{0, 1, nan, 3}, {0, 1, 2, nan}}) {
    job ranks(4);
    std::vector<float> data = inputs;
    ASSERT_EQ(ranks.run([&](int r) {
      const mutable_view mine(&data[static_cast<std::size_t>(r)], sizeof(float));
      return all_reduce(ranks.world(r), mine, data_type::float32, reduce_op::maximum);
    }),
              "");
    for (const float got : data) EXPECT_EQ(std::bit_cast<std::uint32_t>(got), 0x7fc0'0000U);
  }
}

/// Sums and products also give the same NaN on every rank.
TEST(NanOfOneRank, SumHasSameNanOnEveryRank) {
  for (const int n : {2, 3, 5}) {
    job ranks(n, test::small_pieces());
    for (const data_type type : test::floating_types) {
      const nan_cases cases(type, n);
      for (const algorithm how : algorithms_of(collective::all_reduce)) {
        for (const reduce_op op : {reduce_op::sum, reduce_op::product, reduce_op::average,
                                   reduce_op::premultiplied_sum}) {
          std::vector<std::vector<std::byte>> data;
          for (int r = 0; r < n; ++r) {
            std::vector<test::element> mine;
            for (std::size_t i = 0; i < cases.count(); ++i) mine.push_back(cases.input(r, i));
            data.push_back(test::packed(type, mine));
          }
          ASSERT_EQ(ranks.run([&](int r) {
            return all_reduce(ranks.world(r), data[static_cast<std::size_t>(r)], type, op, how);
          }),
                    "");
          const auto got = test::unpacked(type, data[0].data(), cases.count());
          for (std::size_t i = 0; i < got.size(); ++i) {
            const bool has_nan =
                cases.expected(reduce_op::minimum, i) == test::patterns_of(type).nans[0];
            if (!has_nan) continue;
            ASSERT_EQ(got[i], test::patterns_of(type).nans[0])
                << name(op) << " of " << name(type) << " by " << name(how);
          }
          for (const auto& other : data) ASSERT_EQ(other, data[0]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem
