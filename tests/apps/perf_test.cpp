// The checks of the benchmarks detect errors (links tandem_perf).
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "perf/operation.hpp"
#include "perf/pattern.hpp"
#include "perf/record.hpp"

namespace tandem::perf {
namespace {

class pattern_of_every_length : public testing::TestWithParam<std::size_t> {};

TEST_P(pattern_of_every_length, is_accepted_and_each_changed_byte_counted) {
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

TEST(summary, uses_nearest_rank_percentiles) {
  std::vector<double> samples;
  for (int i = 100; i >= 1; --i) samples.push_back(i);
  EXPECT_EQ(mean_of(samples), 50.5);
  const times_us t = summarize(samples, 60);
  EXPECT_EQ(t.min, 1);
  EXPECT_EQ(t.p50, 50);
  EXPECT_EQ(t.p99, 99);
  EXPECT_EQ(t.mean, 60);
  EXPECT_EQ(summarize({}, 0).p50, 0);
  EXPECT_EQ(mean_of({}), 0);
}

TEST(bandwidth, of_the_bus_uses_nccl_tests_factors) {
  const std::pair<const char*, double> factors[] = {
      {"allreduce", 1.5}, {"allgather", 0.75}, {"reducescatter", 0.75},
      {"alltoall", 0.75}, {"gather", 0.75},    {"scatter", 0.75},
      {"broadcast", 1},   {"reduce", 1},       {"sendrecv", 1},
      {"pingpong", 1},    {"oneway", 1}};
  record line;
  line.ranks = 4;
  line.bytes = 1000;
  line.time_us = {1, 1, 1, 1};
  for (const auto& [op, factor] : factors) {
    line.op = op;
    EXPECT_DOUBLE_EQ(line.algbw_gb_per_s(), 1.0) << op;
    EXPECT_DOUBLE_EQ(line.busbw_gb_per_s(), factor) << op;
  }
  line.op = "barrier";
  line.bytes = 0;
  EXPECT_EQ(line.busbw_gb_per_s(), 0);
  EXPECT_EQ(std::size(factors) + 1, operations().size()) << "an operation without a line above";
}

TEST(operation, is_found_by_both_names) {
  EXPECT_EQ(find_operation("all_reduce"), find_operation("allreduce"));
  EXPECT_EQ(find_operation("reduce-scatter"), find_operation("reducescatter"));
  EXPECT_EQ(find_operation("all_to_all")->name, "alltoall");
  EXPECT_EQ(find_operation("allreduced"), nullptr);
  EXPECT_EQ(find_operation(""), nullptr);
}

TEST(operation, rounds_to_whole_blocks) {
  const operation& gather = *find_operation("gather");
  EXPECT_EQ(bytes_moved(gather, 100, 3, 4), 96u);
  EXPECT_EQ(bytes_moved(gather, 8, 3, 4), 12u) << "no block is empty";
  EXPECT_EQ(bytes_moved(gather, 8, 4, 1), 8u);
  EXPECT_EQ(bytes_moved(*find_operation("broadcast"), 100, 3, 4), 100u);
}

TEST(json_line, includes_given_algorithm) {
  record line;
  EXPECT_EQ(line.json().find("algorithm"), std::string::npos);
  line.algorithm = "ring";
  EXPECT_NE(line.json().find(R"("algorithm": "ring", )"), std::string::npos);
}

TEST(json_line, escapes_strings) {
  record line;
  line.op = "a\"b\\c\n";
  EXPECT_NE(line.json().find(R"("op": "a\"b\\c\u000a")"), std::string::npos);
}

}  // namespace
}  // namespace tandem::perf
