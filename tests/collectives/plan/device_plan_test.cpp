// Ranks with device memory agree on a plan.
#include <gtest/gtest.h>

#include <optional>
#include <string_view>
#include <tandem/collectives.hpp>
#include <tandem/communicator.hpp>
#include <tandem/log.hpp>
#include <tandem/plan.hpp>
#include <utility>

#include "collectives/device_job.hpp"

namespace tandem {
namespace {

using test::device_job;
using test::job;

struct DevicePlan : testing::Test {
  test::devices_with_kernels devices;
};

const_view like_of(int device) {
  return device < 0 ? const_view() : const_view(nullptr, 0, memory_kind::cuda, device);
}

struct rank_sum {
  std::vector<std::int32_t> ones = std::vector<std::int32_t>(5000, 1);
  std::optional<plan> agreed;
};

asio::awaitable<void> agree_and_sum(device_job& ranks, int r, int device, rank_sum& mine) {
  const const_view like = like_of(device);
  communicator all =
      co_await make_communicator(*ranks.fabrics[static_cast<std::size_t>(r)], settings{}, like);
  const mutable_view data = ranks.there(r, mutable_view(mine.ones));
  co_await all_reduce(all, data, data_type::int32, reduce_op::sum);
  mine.agreed = all.agreed();
}

void expect_agreement(int ranks, test::device_of_rank where) {
  std::vector<rank_sum> each(static_cast<std::size_t>(ranks));
  device_job of(ranks, settings{}, where);
  of.worlds.clear();
  ASSERT_EQ(of.run([&](int r) {
    return agree_and_sum(of, r, where(r), each[static_cast<std::size_t>(r)]);
  }),
            "");
  of.copy_back();
  for (const rank_sum& one : each) {
    ASSERT_TRUE(one.agreed.has_value());
    EXPECT_EQ(one.agreed->text(), each[0].agreed->text());
    EXPECT_TRUE(one.agreed->known().on_devices);
    EXPECT_GT(one.agreed->known().combine_latency_ns, 0u);
    EXPECT_NE(one.agreed->known().within, path_facts{}) << "nothing was measured";
    for (const std::int32_t sum : one.ones) ASSERT_EQ(sum, ranks);
  }
}

TEST_F(DevicePlan, AllRanksWithDevicesAgree) {
  expect_agreement(2, test::every_other_device);
  expect_agreement(4, test::every_other_device);
}

asio::awaitable<void> agree_only(fabric& over, const_view like) {
  communicator all = co_await make_communicator(over, settings{}, like);
  EXPECT_TRUE(all.agreed().known().on_devices);
}

/// Later, while streams are busy, its peer would wait for them to close it.
TEST_F(DevicePlan, WhatWasMeasuredWithIsNotSharedAnyMore) {
  std::size_t retired = 0;
  log_sink before = set_log_sink(
      [&retired](const log_record& record) {
        if (record.text.find("is not shared any more") != std::string_view::npos) ++retired;
      },
      log_level::debug);
  device_job of(2, settings{}, test::every_other_device);
  of.worlds.clear();
  EXPECT_EQ(of.run([&of](int r) {
    return agree_only(*of.fabrics[static_cast<std::size_t>(r)], like_of(r));
  }),
            "");
  set_log_sink(std::move(before), log_level::warning);
  EXPECT_EQ(retired, 2U) << "by each rank of the pair";
}

TEST_F(DevicePlan, RanksWithAndWithoutDevicesAgree) {
  expect_agreement(2, test::device_or_host);
  expect_agreement(3, test::device_or_host);
}

TEST_F(DevicePlan, MissingDeviceIsRefusedOnEveryRank) {
  device_job of(2, settings{}, test::every_other_device);
  of.worlds.clear();
  EXPECT_NE(of.run([&of](int r) {
    return agree_only(*of.fabrics[static_cast<std::size_t>(r)], like_of(r == 1 ? 7 : 0));
  }),
            "hangs");
  for (const int r : {0, 1}) {
    EXPECT_EQ(of.code(r), errc::unsupported_memory) << of.text(r);
    EXPECT_NE(of.text(r).find("no device 7"), std::string::npos) << of.text(r);
  }
  EXPECT_EQ(of.why(0).rank, 1) << of.text(0);
}

TEST_F(DevicePlan, HostOnlyChannelIsRefusedOnEveryRank) {
  job of(2, settings{});
  of.worlds.clear();
  EXPECT_NE(of.run([&of](int r) {
    return agree_only(*of.fabrics[static_cast<std::size_t>(r)], like_of(0));
  }),
            "hangs");
  for (const int r : {0, 1}) EXPECT_EQ(of.code(r), errc::unsupported_memory) << of.text(r);
}

}  // namespace
}  // namespace tandem
