// Collectives on failing devices: every rank gets the error, and no memory is accessed afterwards.
#include <gtest/gtest.h>

#include <tandem/collectives.hpp>

#include "collectives/device_call.hpp"
#include "collectives/device_job.hpp"

namespace tandem {
namespace {

using test::data_of_call;
using test::device_call;
using test::device_job;
using test::job;

class DeviceFailure : public testing::Test {
 protected:
  /// All ranks call it; their data outlives the call.
  void start(device_job& ranks, const device_call& c) {
    data = std::make_unique<data_of_call>(c, ranks.size());
    ranks.start([this, &ranks](int r) {
      return data->call(ranks.world(r),
                        [&ranks](int rank, mutable_view v) { return ranks.there(rank, v); });
    });
  }
  static error_code code_of(device_job& ranks, asio::awaitable<void> call) {
    std::vector<asio::awaitable<void>> one;
    one.push_back(std::move(call));
    ranks.start([&](int r) { return r == 0 ? std::move(one[0]) : test::nothing(); });
    return ranks.finish() ? ranks.code(0) : error_code(errc::timed_out);
  }
  test::devices_with_kernels devices;
  std::unique_ptr<data_of_call> data;
};

constexpr device_call long_sum{collective::all_reduce, algorithm::ring, data_type::float32,
                               reduce_op::average, 3000};

/// The double fails the test if memory is freed while work on it is queued.
TEST_F(DeviceFailure, LostRankAtAnyStepReturnsViewsUntouched) {
  for (const collective what : {collective::all_reduce, collective::reduce_scatter}) {
    for (const algorithm how : algorithms_of(what)) {
      if (how == algorithm::two_level) continue;
      bool over = false;
      for (int steps = 0; !over; steps += 1 + steps / 4) {
        SCOPED_TRACE(fmt::format("{} by {}, after {} steps", name(what), name(how), steps));
        device_job ranks(3, test::small_pieces(), test::every_other_device);
        device_call c = long_sum;
        c.what = what;
        c.how = how;
        start(ranks, c);
        for (int i = 0; i < steps && !over; ++i) {
          ranks.context.run_one_for(std::chrono::seconds(10));
          over = ranks.running == 0;
        }
        ranks.fabrics[2]->fail(error(
            errc::peer_lost, {.peer = 2, .rail = {}, .phase = {}, .detail = "gone", .advice = {}}));
        ASSERT_TRUE(ranks.finish());
        ranks.copy_back();
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

TEST_F(DeviceFailure, DestructionAtAnyStepLeavesNothingQueued) {
  bool over = false;
  for (int steps = 0; !over; steps += 1 + steps / 4) {
    SCOPED_TRACE(steps);
    auto ranks = std::make_unique<device_job>(3, test::small_pieces(), test::every_other_device);
    start(*ranks, long_sum);
    over = ranks->step(steps);
    ranks.reset();
    ASSERT_FALSE(HasFailure());
  }
}

TEST_F(DeviceFailure, DeviceFailureReachesEveryRank) {
  device_job ranks(3, test::small_pieces(), test::device_or_host);
  start(ranks, long_sum);
  devices.gpus.break_device(1, 10);
  ASSERT_TRUE(ranks.finish());
  EXPECT_EQ(ranks.code(2), errc::device_failed) << ranks.text(2);
  for (const int r : {0, 1}) EXPECT_TRUE(ranks.code(r)) << r;
}

TEST_F(DeviceFailure, MismatchedViewsAreRefusedWithoutEffect) {
  device_job ranks(2, test::small_pieces(), test::every_other_device);
  std::vector<float> here(64, 1), block(32);
  const mutable_view there = ranks.there(0, mutable_view(here));
  const mutable_view other = ranks.there(1, mutable_view(block));
  communicator& world = ranks.world(0);
  constexpr data_type type = data_type::float32;
  EXPECT_EQ(code_of(ranks, all_reduce(world, there.part(0, 128), block, type, reduce_op::sum)),
            errc::unsupported_memory);
  EXPECT_EQ(code_of(ranks, all_reduce(world, there.part(0, 128), other, type, reduce_op::sum)),
            errc::unsupported_memory);
  EXPECT_EQ(code_of(ranks, all_gather(world, block, there)), errc::unsupported_memory);
  EXPECT_EQ(code_of(ranks, all_to_all(world, there, here)), errc::unsupported_memory);
  mutable_view nowhere = there;
  nowhere.device = 7;
  EXPECT_EQ(code_of(ranks, broadcast(world, nowhere, 0)), errc::unsupported_memory);
  nowhere.kind = memory_kind::hip;
  EXPECT_EQ(code_of(ranks, broadcast(world, nowhere, 0)), errc::unsupported_memory);

  // Without a kernel compiler, reductions are refused and data movement is not.
  devices.compiler.fail("no");
  EXPECT_EQ(code_of(ranks, all_reduce(world, there, data_type::int8, reduce_op::sum)),
            errc::device_failed);
  devices.compiler.fail("");
  start(ranks, long_sum);
  ASSERT_TRUE(ranks.finish());
  for (const int r : {0, 1}) EXPECT_FALSE(ranks.code(r)) << ranks.text(r);
}

TEST_F(DeviceFailure, NamesChannelWithoutDeviceMemory) {
  job ranks(3, test::small_pieces());
  test::device_mirror mirror(0);
  std::vector<float> here(64, 1);
  const mutable_view there = mirror.there(mutable_view(here));
  ranks.start([&](int r) {
    return r == 1 ? all_reduce(ranks.world(1), there, data_type::float32, reduce_op::sum)
                  : test::nothing();
  });
  ASSERT_TRUE(ranks.finish());
  EXPECT_EQ(ranks.code(1), errc::unsupported_memory);
  EXPECT_NE(ranks.text(1).find("rank 1 to rank 0"), std::string::npos) << ranks.text(1);
  EXPECT_NE(ranks.text(1).find("cuda"), std::string::npos) << ranks.text(1);
}

}  // namespace
}  // namespace tandem
