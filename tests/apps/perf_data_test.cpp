// Inputs and expected results of the collective benchmarks (links tandem_perf).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "perf/collective_data.hpp"
#include "perf/operation.hpp"
#include "perf/options.hpp"
#include "perf/terms.hpp"

namespace tandem::perf {
namespace {

using ranks_data = std::vector<std::unique_ptr<collective_data>>;

ranks_data all_ranks(const char* op, int ranks, std::size_t bytes) {
  ranks_data all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back(make_data(*find_operation(op), {.rank = rank, .ranks = ranks, .bytes = bytes}));
    all.back()->prepare(5);
    all.back()->before(5, 9, true);
  }
  return all;
}

void put(std::span<std::byte> to, std::size_t at, std::span<const std::byte> from) {
  ASSERT_LE(at + from.size(), to.size());
  std::memcpy(to.data() + at, from.data(), from.size());
}

/// The check accepts the expected outputs and refuses any changed byte.
void expect_checked(ranks_data& all) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::span<std::byte> out = all[rank]->output();
    EXPECT_EQ(all[rank]->wrong_bytes(5, 9), 0u) << rank;
    EXPECT_EQ(all[rank]->after(5, 9), 0u) << rank;
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] ^= std::byte{1};
      EXPECT_GT(all[rank]->wrong_bytes(5, 9), 0u) << rank << " at " << i;
      out[i] ^= std::byte{1};
    }
  }
}

TEST(collective_data, of_broadcast_comes_from_the_root) {
  ranks_data all = all_ranks("broadcast", 3, 100);
  EXPECT_GT(all[1]->wrong_bytes(5, 9), 0u);
  for (int rank = 1; rank < 3; ++rank) put(all[rank]->output(), 0, all[0]->input());
  EXPECT_TRUE(all[0]->output().empty());
  expect_checked(all);
}

TEST(collective_data, of_allgather_and_gather_is_in_rank_order) {
  for (const char* op : {"allgather", "gather"}) {
    ranks_data all = all_ranks(op, 3, 51);
    for (auto& one : all) {
      if (one->output().empty()) continue;
      EXPECT_GT(one->wrong_bytes(5, 9), 0u);
      for (int rank = 0; rank < 3; ++rank) put(one->output(), rank * 17u, all[rank]->input());
    }
    EXPECT_EQ(all[2]->output().empty(), op == std::string_view("gather"));
    expect_checked(all);
    all[0]->prepare(5);
    put(all[0]->output(), 0, all[1]->input());
    EXPECT_GT(all[0]->wrong_bytes(5, 9), 17u) << "a block of another rank";
  }
}

TEST(collective_data, of_scatter_and_alltoall_differs_for_each_pair) {
  ranks_data all = all_ranks("scatter", 3, 51);
  for (int rank = 0; rank < 3; ++rank) {
    put(all[rank]->output(), 0, all[0]->input().subspan(rank * 17u, 17));
  }
  expect_checked(all);
  put(all[1]->output(), 0, all[0]->input().first(17));
  EXPECT_GT(all[1]->wrong_bytes(5, 9), 0u);

  all = all_ranks("alltoall", 3, 51);
  for (int to = 0; to < 3; ++to) {
    for (int from = 0; from < 3; ++from) {
      put(all[to]->output(), from * 17u, all[from]->input().subspan(to * 17u, 17));
    }
  }
  expect_checked(all);
}

TEST(collective_data, of_sendrecv_comes_from_previous_rank) {
  ranks_data all = all_ranks("sendrecv", 3, 40);
  for (int rank = 0; rank < 3; ++rank) put(all[rank]->output(), 0, all[(rank + 2) % 3]->input());
  expect_checked(all);
}

void add(std::span<std::byte> to, std::span<const std::byte> from) {
  for (std::size_t i = 0; i < to.size(); i += sizeof(float)) {
    float a = 0, b = 0;
    std::memcpy(&a, to.data() + i, sizeof(a));
    std::memcpy(&b, from.data() + i, sizeof(b));
    a += b;
    std::memcpy(to.data() + i, &a, sizeof(a));
  }
}

TEST(collective_data, of_reductions_is_the_sum_of_all_ranks) {
  for (const char* op : {"allreduce", "reduce", "reducescatter"}) {
    ranks_data all = all_ranks(op, 3, 120);
    std::vector<std::byte> sum(120);
    for (auto& one : all) add(sum, one->input());
    const std::size_t share = op == std::string_view("reducescatter") ? 40 : 0;
    for (std::size_t rank = 0; rank < 3; ++rank) {
      const std::span<std::byte> out = all[rank]->output();
      put(out, 0, std::span(sum).subspan(share * rank, out.size()));
    }
    EXPECT_EQ(all[1]->output().size(), op == std::string_view("reduce") ? 0 : 120 - 2 * share)
        << op;
    expect_checked(all);
  }
}

TEST(collective_data, of_unfinished_call_stays_zero) {
  ranks_data all = all_ranks("allreduce", 1, 64);
  all[0]->before(5, 0, false);
  all[0]->output()[63] = std::byte{1};
  EXPECT_EQ(all[0]->wrong_bytes(5, 9), 1u);
}

struct rank_terms {
  data_type type;
  reduce_op op;
  int ranks;
};

class terms_of : public testing::TestWithParam<rank_terms> {};

TEST_P(terms_of, differ_by_rank_epoch_and_index) {
  const auto [type, op, ranks] = GetParam();
  ASSERT_TRUE(terms::possible(type, op, ranks));
  const terms all(type, op, ranks);
  std::vector<std::byte> one(bytes_of(type) * 3000), other(one.size());
  all.fill(one, 0, 7);
  all.fill(other, 1, 7);
  EXPECT_NE(one, other);
  all.fill(other, 0, 8);
  EXPECT_NE(one, other);
  const std::vector<std::byte> moved(one.begin() + static_cast<std::ptrdiff_t>(one.size() / 2),
                                     one.end());
  EXPECT_NE(0, std::memcmp(moved.data(), one.data(), moved.size()));
}

INSTANTIATE_TEST_SUITE_P(, terms_of,
                         testing::Values(rank_terms{data_type::float32, reduce_op::sum, 4},
                                         rank_terms{data_type::float8_e4m3, reduce_op::sum, 4},
                                         rank_terms{data_type::float8_e5m2, reduce_op::sum, 3},
                                         rank_terms{data_type::int8, reduce_op::bxor, 4},
                                         rank_terms{data_type::bfloat16, reduce_op::average, 4},
                                         rank_terms{data_type::float16, reduce_op::product, 4},
                                         rank_terms{data_type::uint16, reduce_op::minimum, 4}));

TEST(terms, are_encoded_for_each_type) {
  const auto first = [](data_type type) {
    std::vector<std::byte> data(bytes_of(type) * 2000);
    // The sum of one rank is its term; the factor 2 of a product is representable in every type.
    terms(type, reduce_op::product, 2).fill(data, 0, 0);
    std::uint64_t largest = 0;
    for (std::size_t at = 0; at < data.size(); at += bytes_of(type)) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, data.data() + at, bytes_of(type));
      largest = std::max(largest, bits);
    }
    return largest;
  };
  EXPECT_EQ(first(data_type::float32), 0x40000000u);
  EXPECT_EQ(first(data_type::float64), 0x4000000000000000u);
  EXPECT_EQ(first(data_type::int8), 2u);
  EXPECT_EQ(first(data_type::uint64), 2u);
  EXPECT_EQ(first(data_type::float16), 0x4000u);
  EXPECT_EQ(first(data_type::bfloat16), 0x4000u);
  EXPECT_EQ(first(data_type::float8_e4m3), 0x40u);
  EXPECT_EQ(first(data_type::float8_e5m2), 0x40u);
}

TEST(terms, are_refused_where_results_are_inexact) {
  EXPECT_TRUE(terms::possible(data_type::float8_e5m2, reduce_op::sum, 7));
  EXPECT_FALSE(terms::possible(data_type::float8_e5m2, reduce_op::sum, 8));
  EXPECT_TRUE(terms::possible(data_type::float8_e5m2, reduce_op::maximum, 4096));
  EXPECT_TRUE(terms::possible(data_type::int8, reduce_op::sum, 100));
  EXPECT_FALSE(terms::possible(data_type::int8, reduce_op::sum, 127));
  EXPECT_TRUE(terms::possible(data_type::float32, reduce_op::sum, 4096));
}

TEST(collective_of_an_operation, maps_by_name) {
  EXPECT_EQ(collective_of(*find_operation("alltoall")), collective::all_to_all);
  EXPECT_EQ(collective_of(*find_operation("reduce")), collective::reduce);
  EXPECT_EQ(collective_of(*find_operation("sendrecv")), std::nullopt);
  for (std::size_t i = 0; i < collective_count; ++i) {
    const auto what = static_cast<collective>(i);
    const operation* const op = find_operation(name(what));
    ASSERT_NE(op, nullptr) << name(what) << " cannot be measured";
    EXPECT_EQ(collective_of(*op), what);
  }
}

}  // namespace
}  // namespace tandem::perf
