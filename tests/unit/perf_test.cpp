// For tests/unit (links tandem_perf): the checks of the benchmarks can fail.
#include <gtest/gtest.h>

#include <vector>

#include "perf/pattern.hpp"
#include "perf/record.hpp"

namespace tandem::perf {
namespace {

class pattern_of_every_length : public testing::TestWithParam<std::size_t> {};

TEST_P(pattern_of_every_length, is_accepted_as_written_and_each_changed_byte_is_counted) {
  const message_id id{3, 5, 7};
  std::vector<std::byte> message(GetParam());
  fill(message, id, 11);
  EXPECT_EQ(wrong_bytes(message, id, 11), 0u);
  mark(message, id, 12);
  EXPECT_EQ(wrong_bytes(message, id, 12), 0u);
  EXPECT_EQ(wrong_marks(message, id, 12), 0u);
  for (std::size_t i = 0; i < message.size(); ++i) {
    message[i] ^= std::byte{1};
    EXPECT_EQ(wrong_bytes(message, id, 12), 1u) << "at " << i;
    message[i] ^= std::byte{1};
  }
}

TEST_P(pattern_of_every_length, differs_by_rank_slot_epoch_and_iteration) {
  std::vector<std::byte> message(GetParam());
  fill(message, {3, 5, 7}, 11);
  EXPECT_GT(wrong_bytes(message, {4, 5, 7}, 11), 0u);
  EXPECT_GT(wrong_bytes(message, {3, 6, 7}, 11), 0u);
  EXPECT_GT(wrong_bytes(message, {3, 5, 8}, 11), 0u);
  EXPECT_GT(wrong_marks(message, {3, 5, 7}, 12), 0u);
  clear(message);
  EXPECT_GT(wrong_bytes(message, {3, 5, 7}, 11), 0u);
}

INSTANTIATE_TEST_SUITE_P(, pattern_of_every_length,
                         testing::Values(1, 2, 7, 8, 9, 15, 16, 17, 24, 31, 100, 4097));

TEST(reduction_terms, are_summed_exactly_and_a_wrong_one_is_counted) {
  std::vector<float> sums(1000), terms(1000);
  for (int rank = 0; rank < 5; ++rank) {
    fill_terms(terms, rank, 9);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += terms[i];
  }
  EXPECT_EQ(wrong_sums(sums, 5, 9), 0u);
  sums[17] += 1;
  EXPECT_EQ(wrong_sums(sums, 5, 9), 4u);
  EXPECT_EQ(wrong_zeros(std::vector<float>{0, 0, 1}), 2u);
}

TEST(summary, takes_nearest_ranks) {
  std::vector<double> samples;
  for (int i = 100; i >= 1; --i) samples.push_back(i);
  const times_us t = summarize(samples);
  EXPECT_EQ(t.min, 1);
  EXPECT_EQ(t.p50, 50);
  EXPECT_EQ(t.p99, 99);
  EXPECT_EQ(summarize({}).p50, 0);
}

TEST(bandwidth, has_the_factors_of_nccl_tests) {
  record line;
  line.op = "allreduce";
  line.ranks = 4;
  line.bytes = 1000;
  line.time_us = {1, 1, 1};
  EXPECT_DOUBLE_EQ(line.algbw_gb_per_s(), 1.0);
  EXPECT_DOUBLE_EQ(line.busbw_gb_per_s(), 1.5);
  line.op = "broadcast";
  EXPECT_DOUBLE_EQ(line.busbw_gb_per_s(), 1.0);
}

TEST(json_line, quotes_what_must_be_quoted) {
  record line;
  line.op = "a\"b\\c\n";
  EXPECT_NE(line.json().find(R"("op": "a\"b\\c\u000a")"), std::string::npos);
}

}  // namespace
}  // namespace tandem::perf
