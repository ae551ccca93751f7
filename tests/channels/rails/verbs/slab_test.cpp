// Memory layout of one end of a lane.

#include "transports/rails/verbs/slab.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tandem::verbs {
namespace {

using area = std::span<const std::byte>;

std::vector<area> chunks_in(slab& of, const queue_depths& has) {
  std::vector<area> all;
  for (std::uint32_t i = 0; i < has.chunks; ++i) all.emplace_back(of.chunk_in(i), has.chunk_bytes);
  return all;
}

std::vector<area> local_slots(slab& of, const queue_depths& has) {
  std::vector<area> all;
  for (std::uint32_t i = 0; i < has.chunks; ++i) {
    all.emplace_back(of.chunk_out(i), has.chunk_bytes);
  }
  for (std::uint32_t i = 0; i < has.records; ++i) {
    all.emplace_back(of.record_in(i), has.record_bytes);
    all.emplace_back(of.record_out(i), has.record_bytes);
  }
  for (std::uint32_t i = 0; i < has.updates; ++i) {
    all.emplace_back(of.update_in(i), credit_update_bytes);
    all.emplace_back(of.update_out(i), credit_update_bytes);
  }
  return all;
}

bool is_within(area part, area outer) {
  return part.data() >= outer.data() && part.data() + part.size() <= outer.data() + outer.size();
}

class slab_test : public testing::TestWithParam<queue_depths> {};

TEST_P(slab_test, no_two_slots_overlap) {
  slab memory(GetParam());
  std::vector<area> all = chunks_in(memory, GetParam());
  const std::vector<area> local = local_slots(memory, GetParam());
  all.insert(all.end(), local.begin(), local.end());
  std::sort(all.begin(), all.end(),
            [](const area& a, const area& b) { return a.data() < b.data(); });
  for (std::size_t i = 1; i < all.size(); ++i) {
    ASSERT_LE(all[i - 1].data() + all[i - 1].size(), all[i].data());
  }
}

TEST_P(slab_test, peer_writable_pages_hold_only_chunks) {
  constexpr std::uintptr_t page = 4096;
  slab memory(GetParam());
  const area open = memory.chunk_area(), closed = memory.local_area();
  for (const area& one : {open, closed}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one.data()) % page, 0u);
    EXPECT_EQ(one.size() % page, 0u);
  }
  EXPECT_EQ(open.data() + open.size(), closed.data());
  EXPECT_EQ(memory.chunk_in(0), open.data());
  for (const area& one : chunks_in(memory, GetParam())) EXPECT_TRUE(is_within(one, open));
  for (const area& one : local_slots(memory, GetParam())) EXPECT_TRUE(is_within(one, closed));
}

INSTANTIATE_TEST_SUITE_P(rooms, slab_test,
                         testing::Values(queue_depths{}, queue_depths{2, 1024, 1, 1024, 2},
                                         queue_depths{7, 1040, 3, 5000, 5},
                                         queue_depths{33, 4095, 16, 8191, 9}));

}  // namespace
}  // namespace tandem::verbs
