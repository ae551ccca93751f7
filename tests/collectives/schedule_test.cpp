#include <gtest/gtest.h>

#include <algorithm>
#include <tandem/pipeline.hpp>

#include "collectives/integer_stage.hpp"

namespace tandem {
namespace {

using test::both_kinds;
constexpr auto forward = pipeline_step::forward;
constexpr auto backward = pipeline_step::backward;

TEST(Schedule, OneForwardOneBackward) {
  const pipeline_schedule first = make_schedule(pipeline_kind::one_f_one_b, 0, 2, 3);
  EXPECT_EQ(
      first,
      (pipeline_schedule{
          {forward, 0}, {forward, 1}, {backward, 0}, {forward, 2}, {backward, 1}, {backward, 2}}));
  const pipeline_schedule last = make_schedule(pipeline_kind::one_f_one_b, 1, 2, 3);
  EXPECT_EQ(
      last,
      (pipeline_schedule{
          {forward, 0}, {backward, 0}, {forward, 1}, {backward, 1}, {forward, 2}, {backward, 2}}));
}

TEST(Schedule, GpipeDoesAllForwardsFirst) {
  const pipeline_schedule any = make_schedule(pipeline_kind::gpipe, 1, 3, 2);
  EXPECT_EQ(any, (pipeline_schedule{{forward, 0}, {forward, 1}, {backward, 0}, {backward, 1}}));
}

TEST(Schedule, KeepsInvariantsForEveryShape) {
  for (const pipeline_kind kind : both_kinds) {
    for (int stages = 1; stages <= 8; ++stages) {
      for (int micro_batches = 0; micro_batches <= 16; ++micro_batches) {
        SCOPED_TRACE(testing::Message() << name(kind) << ", " << stages << " stages, "
                                        << micro_batches << " micro-batches");
        const std::vector<pipeline_schedule> all = make_schedules(kind, stages, micro_batches);
        ASSERT_EQ(all.size(), static_cast<std::size_t>(stages));
        for (const pipeline_schedule& one : all) {
          ASSERT_EQ(one.size(), 2 * static_cast<std::size_t>(micro_batches));
        }
        // One buffer between neighbours suffices for both kinds; more buffers change no order.
        for (const int buffers : {1, 2, pipeline_buffers}) {
          const schedule_check result = check(all, buffers);
          ASSERT_EQ(result.problem, "") << buffers << " buffers";
          for (int s = 0; s < stages; ++s) {
            const int peak =
                kind == pipeline_kind::gpipe ? micro_batches : std::min(stages - s, micro_batches);
            EXPECT_EQ(result.peak_stash[static_cast<std::size_t>(s)], peak) << "stage " << s;
          }
        }
        // All steps of the last stage plus one traversal in each direction: the lower bound.
        const int min_slots = micro_batches == 0 ? 0 : 2 * (micro_batches + stages - 1);
        EXPECT_EQ(check(all).slots, min_slots);
      }
    }
  }
}

TEST(ScheduleCheck, DetectsBackwardOutOfOrder) {
  std::vector<pipeline_schedule> bad = make_schedules(pipeline_kind::gpipe, 2, 2);
  std::swap(bad[1][2], bad[1][3]);
  EXPECT_EQ(check(bad).problem, "stage 1: backward of micro-batch 1 where 0 is expected");
}

TEST(ScheduleCheck, DetectsMissingStep) {
  std::vector<pipeline_schedule> bad = make_schedules(pipeline_kind::one_f_one_b, 3, 4);
  bad[2].pop_back();
  EXPECT_EQ(check(bad).problem, "stage 2: 4 forwards and 3 backwards of 4 micro-batches");
}

TEST(ScheduleCheck, DetectsBackwardBeforeForward) {
  std::vector<pipeline_schedule> bad = make_schedules(pipeline_kind::one_f_one_b, 1, 2);
  std::swap(bad[0][0], bad[0][1]);
  EXPECT_EQ(check(bad).problem, "stage 0: backward of micro-batch 0 before its forward");
}

TEST(ScheduleCheck, DetectsDeadlock) {
  // The first stage waits for a gradient before it has sent the input that the last stage needs.
  std::vector<pipeline_schedule> bad = make_schedules(pipeline_kind::one_f_one_b, 2, 3);
  bad[0] = make_schedule(pipeline_kind::one_f_one_b, 1, 2, 3);
  bad[1] = make_schedule(pipeline_kind::one_f_one_b, 0, 2, 3);
  EXPECT_EQ(check(bad).problem,
            "deadlock between the stages: stage 0 at backward of micro-batch 0; "
            "stage 1 at forward of micro-batch 1");
}

TEST(SchedulePrint, ShowsEveryStageAndSlot) {
  EXPECT_EQ(print(make_schedules(pipeline_kind::one_f_one_b, 3, 4)),
            "stage 0  F0 F1 F2 .. .. B0 F3 B1 .. B2 .. B3\n"
            "stage 1  .. F0 F1 .. B0 F2 B1 F3 B2 .. B3\n"
            "stage 2  .. .. F0 B0 F1 B1 F2 B2 F3 B3\n");
  EXPECT_EQ(print(make_schedules(pipeline_kind::gpipe, 2, 3)),
            "stage 0  F0 F1 F2 .. .. B0 B1 B2\n"
            "stage 1  .. F0 F1 F2 B0 B1 B2\n");
}

TEST(SchedulePrint, EndsWithTheProblem) {
  std::vector<pipeline_schedule> bad = make_schedules(pipeline_kind::one_f_one_b, 2, 1);
  bad[0].clear();
  EXPECT_NE(print(bad).find("stage 1: 1 forwards and 1 backwards of 0 micro-batches\n"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem
