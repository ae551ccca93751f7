#include "protocol/flow_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace tandem::test {
namespace {

using table = protocol::flow_table<int>;

TEST(flow_table, finds_what_was_added) {
  table all;
  EXPECT_EQ(all.find(7), nullptr);
  int* const seven = all.find_or_add(7, 10);
  ASSERT_NE(seven, nullptr);
  *seven = 70;
  EXPECT_EQ(all.find(7), seven);
  EXPECT_EQ(all.find_or_add(7, 0), seven) << "an existing one is not new";
}

/// Both map to the same slot of the cache of recent flows.
TEST(flow_table, colliding_flows_are_distinguished) {
  table all;
  for (flow_id flow = 5; flow < 5 + 64 * 20; flow += 64) {
    *all.find_or_add(flow, 20) = static_cast<int>(flow);
  }
  for (int round = 0; round < 2; ++round) {
    for (flow_id flow = 5; flow < 5 + 64 * 20; flow += 64) {
      ASSERT_NE(all.find(flow), nullptr);
      EXPECT_EQ(*all.find(flow), static_cast<int>(flow));
    }
  }
  EXPECT_EQ(std::distance(all.begin(), all.end()), 20);
}

TEST(flow_table, number_of_flows_is_limited) {
  table all;
  for (flow_id flow = 0; flow < 3; ++flow) EXPECT_NE(all.find_or_add(flow, 3), nullptr);
  EXPECT_EQ(all.find_or_add(3, 3), nullptr);
  EXPECT_EQ(all.find(3), nullptr);
}

TEST(flow_table, states_have_stable_addresses) {
  table all;
  int* const first = all.find_or_add(0, 5000);
  for (flow_id flow = 1; flow < 5000; ++flow) all.find_or_add(flow, 5000);
  EXPECT_EQ(all.find(0), first);
}

}  // namespace
}  // namespace tandem::test
