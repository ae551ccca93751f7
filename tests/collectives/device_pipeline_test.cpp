// Pipelines whose buffers are in the memory of simulated devices.
#include <gtest/gtest.h>

#include <tandem/collectives.hpp>
#include <tandem/pipeline.hpp>

#include "collectives/device_job.hpp"
#include "collectives/integer_stage.hpp"

namespace tandem {
namespace {

using test::cuda_double;
using test::device_job;
using test::device_of_rank;
using test::integer_stage;
using test::job;
using test::make_stages;
using test::shapes_of;
using test::small_pieces;
using test::stage_list;
using test::text_of;

/// Computes in the memory of a device of the double, or on the host if `device` is negative.
class device_stage final : public integer_stage {
 public:
  device_stage(int rank, const pipeline_schedule& all, cuda_double& gpus, int device)
      : integer_stage(rank, all, 100), gpus_(gpus), device_(device) {}

  const_view memory() const override {
    if (device_ < 0) return {};
    return {nullptr, 0, memory_kind::cuda, device_};
  }
  asio::awaitable<void> forward(pipeline_step at, const_view in, mutable_view out) override {
    return integer_stage::forward(at, there(in), there(out));
  }
  asio::awaitable<void> backward(pipeline_step at, const_view grad_out,
                                 mutable_view grad_in) override {
    return integer_stage::backward(at, there(grad_out), there(grad_in));
  }
  asio::awaitable<void> backward_input(pipeline_step at, const_view grad_out,
                                       mutable_view grad_in) override {
    return integer_stage::backward_input(at, there(grad_out), there(grad_in));
  }

 private:
  /// The bytes of the view, as the double stores them.
  template <class View>
  View there(View given) {
    if (given.bytes == 0) return given;
    EXPECT_EQ(given.kind, device_ < 0 ? memory_kind::host : memory_kind::cuda);
    if (device_ < 0) return given;
    EXPECT_EQ(given.device, device_);
    auto* const first = static_cast<std::byte*>(const_cast<void*>(given.data));
    return View(gpus_.host(first, given.bytes), given.bytes);
  }

  cuda_double& gpus_;
  int device_;
};

class PipelineOnDevices : public testing::TestWithParam<device_of_rank> {
 protected:
  stage_list make(const pipeline_schedule& all) {
    stage_list made;
    for (int rank = 0; rank < all.size(); ++rank) {
      made.push_back(std::make_unique<device_stage>(rank, all, devices.gpus, GetParam()(rank)));
    }
    return made;
  }
  static job::rank_body run(job& ranks, const pipeline_schedule& all, const stage_list& work) {
    return [&](int r) {
      return run_pipeline(ranks.world(r), all, *work[static_cast<std::size_t>(r)]);
    };
  }

  test::devices_with_kernels devices;
};

TEST_P(PipelineOnDevices, MatchesHost) {
  for (int size = 1; size <= 3; ++size) {
    job on_host(size, small_pieces());
    device_job on_devices(size, small_pieces(), GetParam());
    for (const pipeline_shape& shape : shapes_of(size, 5)) {
      SCOPED_TRACE(text_of(shape));
      const pipeline_schedule all = make_schedule(shape);
      const stage_list expected = make_stages(all, 100);
      const stage_list got = make(all);
      ASSERT_EQ(on_host.run(run(on_host, all, expected)), "");
      ASSERT_EQ(on_devices.run(run(on_devices, all, got)), "");
      for (std::size_t r = 0; r < got.size(); ++r) {
        EXPECT_EQ(got[r]->outcomes, expected[r]->outcomes);
        EXPECT_EQ(got[r]->gradients, expected[r]->gradients);
        for (int chunk = 0; chunk < all.chunks; ++chunk) {
          EXPECT_EQ(got[r]->weights(chunk), expected[r]->weights(chunk));
        }
      }
    }
  }
}

/// Calls on the host between two pipelines do not take the memory of the pipelines.
TEST_P(PipelineOnDevices, KeepBuffersBesideCallsOnTheHost) {
  const pipeline_schedule all = make_schedule({.ranks = 2, .micro_batches = 4});
  device_job ranks(2, small_pieces(), GetParam());
  std::size_t allocations = 0;
  for (int round = 0; round < 3; ++round) {
    const stage_list work = make(all);
    ASSERT_EQ(ranks.run(run(ranks, all, work)), "");
    std::vector<double> values(20000, 1);
    const mutable_view view(values.data(), values.size() / 2 * sizeof(double));
    ASSERT_EQ(ranks.run([&](int r) {
      const mutable_view own(values.data() + (r == 0 ? 0 : 10000), view.bytes);
      return all_reduce(ranks.world(r), own, data_type::float64, reduce_op::sum);
    }),
              "");
    if (round == 0) allocations = devices.gpus.calls("cuMemAlloc");
    EXPECT_EQ(devices.gpus.calls("cuMemAlloc"), allocations);
  }
}

/// Stopping the program in any transfer must not leak or access memory late.
TEST_P(PipelineOnDevices, StoppingAfterAnyStepIsSafe) {
  const pipeline_schedule all =
      make_schedule({.kind = pipeline_kind::zb_v, .ranks = 2, .micro_batches = 2});
  bool ended = false;
  for (int steps = 0; !ended; ++steps) {
    ASSERT_LT(steps, 100000);
    const stage_list work = make(all);
    device_job ranks(2, small_pieces(), GetParam());
    ranks.start(run(ranks, all, work));
    int left = steps;
    while (left > 0 && ranks.running > 0) left -= static_cast<int>(ranks.context.poll_one()) > 0;
    ended = ranks.running == 0;
  }
}

TEST(PipelineMemory, OfADeviceThatDoesNotExistIsRefused) {
  test::devices_with_kernels devices;
  const pipeline_schedule all = make_schedule({.micro_batches = 1});
  device_job ranks(1, small_pieces(), test::every_other_device);
  device_stage work(0, all, devices.gpus, 77);
  ASSERT_NE(ranks.run([&](int) { return run_pipeline(ranks.world(0), all, work); }), "hangs");
  EXPECT_EQ(ranks.code(0), errc::unsupported_memory) << ranks.text(0);
}

INSTANTIATE_TEST_SUITE_P(Of, PipelineOnDevices,
                         testing::Values(test::every_other_device, test::device_or_host),
                         [](const auto& of) { return of.index == 0 ? "AllRanks" : "SomeRanks"; });

}  // namespace
}  // namespace tandem
