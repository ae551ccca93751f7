// Every reduction by every algorithm, compared bitwise with the serial reference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <span>
#include <tandem/collectives.hpp>

#include "collectives/inputs.hpp"
#include "collectives/job.hpp"
#include "collectives/reference.hpp"
#include "support/sanitized.hpp"

namespace tandem {
namespace {

using test::element;
using test::job;

/// One call of all ranks.
struct reducing {
  collective what;
  algorithm how;
  data_type type;
  reduce_op op;
  std::size_t count;  ///< elements of each rank's data, or of the longest block
  int root = 0;
  bool in_place = false;
  bool listed = false;  ///< blocks of unequal length
};

std::string text(const reducing& c, int ranks) {
  return fmt::format("{} by {}, {} of {} {}, {} ranks, root {}{}{}", name(c.what), name(c.how),
                     name(c.op), c.count, name(c.type), ranks, c.root,
                     c.in_place ? ", in place" : "", c.listed ? ", listed" : "");
}

/// Number of elements of each rank's block.
std::vector<std::size_t> block_counts(const reducing& c, int ranks) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(ranks), c.count);
  if (!c.listed) return counts;
  for (std::size_t r = 0; r < counts.size(); ++r) counts[r] = r % 3 == 1 ? 0 : c.count / (r + 1);
  return counts;
}

class reduction_of_all {
 public:
  reduction_of_all(job& ranks, const reducing& c)
      : ranks_(ranks), c_(c), counts_(block_counts(c, ranks.size())) {
    const bool scatters = c.what == collective::reduce_scatter;
    for (const std::size_t one : counts_) total_ += one;
    if (!scatters) total_ = c.count;
    for (int r = 0; r < ranks.size(); ++r) {
      contributions_.push_back(test::elements_of(c.type, r, total_));
      from_.push_back(test::packed(c.type, contributions_.back()));
      const std::size_t here = scatters ? counts_[static_cast<std::size_t>(r)] : total_;
      into_.emplace_back(here * bytes_of(c.type), std::byte{0xab});
    }
  }

  void expect() {
    SCOPED_TRACE(text(c_, ranks_.size()));
    const std::vector<std::vector<std::byte>> before = from_;
    ASSERT_EQ(ranks_.run([this](int r) { return call(r); }), "");
    for (int r = 0; r < ranks_.size(); ++r) {
      const auto i = static_cast<std::size_t>(r);
      if (c_.what == collective::reduce && r != c_.root) {
        ASSERT_EQ(into_[i], std::vector<std::byte>(into_[i].size(), std::byte{0xab}));
      } else {
        ASSERT_EQ(test::unpacked(c_.type, result(r).data, into_[i].size() / bytes_of(c_.type)),
                  expected(r));
      }
      if (c_.in_place) continue;
      ASSERT_EQ(from_[i], before[i]) << "the input has changed";
    }
  }

 private:
  std::size_t first_of(int block) const {
    std::size_t first = 0;
    for (int r = 0; r < block; ++r) first += counts_[static_cast<std::size_t>(r)];
    return first;
  }
  mutable_view result(int r) {
    const auto i = static_cast<std::size_t>(r);
    if (!c_.in_place || (c_.what == collective::reduce && r != c_.root)) return into_[i];
    if (c_.what != collective::reduce_scatter) return from_[i];
    return mutable_view(from_[i]).part(first_of(r) * bytes_of(c_.type), into_[i].size());
  }
  asio::awaitable<void> call(int r) {
    communicator& world = ranks_.world(r);
    const const_view from = from_[static_cast<std::size_t>(r)];
    const reduction what(c_.op, test::factor_of(r));
    if (c_.what == collective::all_reduce) {
      return all_reduce(world, from, result(r), c_.type, what, c_.how);
    }
    if (c_.what == collective::reduce) {
      return reduce(world, from, result(r), c_.type, what, c_.root, c_.how);
    }
    if (!c_.listed) return reduce_scatter(world, from, result(r), c_.type, what, c_.how);
    bytes_ = counts_;
    for (std::size_t& one : bytes_) one *= bytes_of(c_.type);
    return reduce_scatter_v(world, from, result(r), bytes_, c_.type, what, c_.how);
  }
  std::vector<element> expected(int r) const {
    const auto combine = [this](element a, element b) {
      return test::slow_combine(c_.type, c_.op, a, b);
    };
    const auto all = test::prepared(c_.type, c_.op, contributions_);
    const bool scatters = c_.what == collective::reduce_scatter;
    const std::size_t first = scatters ? first_of(r) : 0;
    const std::size_t count = scatters ? counts_[static_cast<std::size_t>(r)] : total_;
    std::vector<element> result;
    for (std::size_t e = first; e < first + count; ++e) {
      std::vector<element> x;
      for (const auto& of_rank : all) x.push_back(of_rank[e]);
      const std::size_t where = scatters ? static_cast<std::size_t>(r)
                                : c_.what == collective::reduce
                                    ? static_cast<std::size_t>(c_.root)
                                    : test::segment_of(e, total_, all.size());
      const element one = test::combined(combine, c_.what, c_.how, x, where);
      result.push_back(test::finished(c_.type, c_.op, one, ranks_.size()));
    }
    return result;
  }

  job& ranks_;
  const reducing c_;
  const std::vector<std::size_t> counts_;
  std::size_t total_ = 0;
  std::vector<std::vector<element>> contributions_;
  std::vector<std::vector<std::byte>> from_, into_;
  std::vector<std::size_t> bytes_;
};

/// A call by each algorithm, in place and out of place, with each relevant root, with equal and
/// unequal blocks.
void expect_all(job& ranks, data_type type, reduce_op op, std::size_t count) {
  for (const collective what :
       {collective::all_reduce, collective::reduce, collective::reduce_scatter}) {
    for (const algorithm how : algorithms_of(what)) {
      if (how == algorithm::two_level) continue;  // its order depends on hosts
      for (const bool in_place : {false, true}) {
        reducing c{what, how, type, op, count, 0, in_place, false};
        reduction_of_all(ranks, c).expect();
        if (what == collective::reduce) c.root = ranks.size() - 1;
        if (what == collective::reduce_scatter) c.listed = true;
        if (what != collective::all_reduce) reduction_of_all(ranks, c).expect();
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(Reducing, EveryTypeAndOperation) {
  for (const int n : {1, 2, 3, 6}) {
    if (test::is_sanitized && n == 6) continue;
    job ranks(n, test::small_pieces());
    for (const data_type type : test::all_types) {
      for (const reduce_op op : test::all_ops) {
        if (is_defined(type, op)) expect_all(ranks, type, op, 131);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

class ReducingByRanks : public testing::TestWithParam<int> {};

TEST_P(ReducingByRanks, EveryNumberOfElements) {
  const std::size_t chunk = test::small_pieces().collective_chunk_bytes;
  job ranks(GetParam(), test::small_pieces());
  for (const auto& [type, op] : {std::pair{data_type::float32, reduce_op::sum},
                                 std::pair{data_type::int64, reduce_op::premultiplied_sum},
                                 std::pair{data_type::float16, reduce_op::average}}) {
    const std::size_t in_chunk = chunk / bytes_of(type);
    const std::size_t fewer = static_cast<std::size_t>(GetParam()) - 1;
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, fewer,
                                    in_chunk - 1, in_chunk, in_chunk + 1, 9 * in_chunk + 5}) {
      expect_all(ranks, type, op, count);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(UpTo, ReducingByRanks,
                         testing::Range(1, test::unless_sanitized(9, 5) + 1));

class ReducingOver : public testing::TestWithParam<test::fabric_kind> {};

TEST_P(ReducingOver, MatchesReferenceBitwise) {
  const settings options = test::small_pieces();
  for (const int n : {2, 3, 5}) {
    job ranks(GetParam(), n, options);
    for (const std::size_t count : {std::size_t{1}, std::size_t{131}, std::size_t{4099}}) {
      expect_all(ranks, data_type::float32, reduce_op::sum, count);
      expect_all(ranks, data_type::bfloat16, reduce_op::premultiplied_sum, count);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, ReducingOver, testing::ValuesIn(test::fabric_kinds()),
                         test::name_of_kind);

}  // namespace
}  // namespace tandem
