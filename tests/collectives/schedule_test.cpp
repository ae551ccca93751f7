#include <gtest/gtest.h>

#include <algorithm>
#include <tandem/error.hpp>
#include <tandem/pipeline_schedule.hpp>

#include "collectives/integer_stage.hpp"

namespace tandem {
namespace {

using test::shapes_of;
using test::text_of;
constexpr auto forward = pipeline_step::forward;
constexpr auto backward = pipeline_step::backward;
constexpr auto input = pipeline_step::backward_input;
constexpr auto weights = pipeline_step::backward_weights;

pipeline_schedule make(pipeline_kind which, int ranks, int micro_batches, int chunks = 0) {
  return make_schedule(
      {.kind = which, .ranks = ranks, .micro_batches = micro_batches, .chunks = chunks});
}

/// Every part of a stage takes one slot.
std::vector<stage_cost> equal_costs(const pipeline_schedule& all) {
  return std::vector<stage_cost>(static_cast<std::size_t>(all.stages()));
}

TEST(Schedule, OneForwardOneBackward) {
  const pipeline_schedule all = make(pipeline_kind::one_f_one_b, 2, 3);
  EXPECT_EQ(
      all.ranks[0],
      (pipeline_steps{
          {forward, 0}, {forward, 1}, {backward, 0}, {forward, 2}, {backward, 1}, {backward, 2}}));
  EXPECT_EQ(
      all.ranks[1],
      (pipeline_steps{
          {forward, 0}, {backward, 0}, {forward, 1}, {backward, 1}, {forward, 2}, {backward, 2}}));
}

TEST(Schedule, GpipeDoesAllForwardsFirst) {
  const pipeline_schedule any = make(pipeline_kind::gpipe, 3, 2);
  EXPECT_EQ(any.ranks[1],
            (pipeline_steps{{forward, 0}, {forward, 1}, {backward, 0}, {backward, 1}}));
}

TEST(Schedule, StagesAndLocationsAreInverse) {
  for (const pipeline_placement placement : {pipeline_placement::looped, pipeline_placement::v}) {
    for (int ranks = 1; ranks <= 5; ++ranks) {
      for (int stage = 0; stage < 4 * ranks; ++stage) {
        EXPECT_EQ(stage_of(placement, location_of(placement, stage, ranks), ranks), stage);
      }
    }
  }
  EXPECT_EQ(location_of(pipeline_placement::looped, 5, 4), (chunk_location{1, 1}));
  EXPECT_EQ(location_of(pipeline_placement::v, 5, 4), (chunk_location{2, 1}));
}

/// Slots of a schedule of equal costs that the papers give; 0 where they give none.
std::int64_t published_slots(const pipeline_shape& shape, int chunks) {
  const std::int64_t ranks = shape.ranks, count = shape.micro_batches;
  switch (shape.kind) {
    case pipeline_kind::gpipe:
    case pipeline_kind::one_f_one_b:
      return 3 * (count + ranks - 1);
    case pipeline_kind::interleaved:
      if (chunks == 1) return 3 * (count + ranks - 1);
      return count % ranks == 0 ? 3 * (count * chunks + ranks - 1) : 0;
    case pipeline_kind::zb_h1:
      return count >= ranks ? 3 * count + ranks - 1 : 0;
    case pipeline_kind::zb_v:
    case pipeline_kind::v_uneven:
      break;
  }
  // No rank waits once it has begun; the last one begins ranks - 1 slots late.
  return count >= 2 * ranks ? 6 * count + ranks - 1 : 0;
}

/// The maximum of stashed micro-batches of one chunk that the papers give.
int published_stash(const pipeline_shape& shape, int rank, int chunks) {
  const int ranks = shape.ranks, count = shape.micro_batches;
  switch (shape.kind) {
    case pipeline_kind::gpipe:
      return count;
    case pipeline_kind::one_f_one_b:
      return std::min(ranks - rank, count);
    case pipeline_kind::interleaved:
      if (chunks == 1) return std::min(ranks - rank, count);
      return std::min((chunks - 1) * ranks + 2 * (ranks - rank - 1) + 1, chunks * count);
    case pipeline_kind::zb_h1:
      return std::min(ranks, count);
    case pipeline_kind::zb_v:
    case pipeline_kind::v_uneven:
      break;
  }
  return std::min(2 * ranks, 2 * count);
}

TEST(Schedule, KeepsInvariantsForEveryShape) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int micro_batches = 0; micro_batches <= 16; ++micro_batches) {
      for (const pipeline_shape& shape : shapes_of(ranks, micro_batches, 4)) {
        SCOPED_TRACE(text_of(shape));
        const pipeline_schedule all = make_schedule(shape);
        ASSERT_EQ(all.size(), ranks);
        const std::vector<stage_cost> costs = equal_costs(all);
        // One buffer between neighbours suffices for all; more buffers change no order.
        for (const int buffers : {1, 2, pipeline_buffers}) {
          ASSERT_EQ(check(all, {}, buffers).problem, "") << buffers << " buffers";
          const schedule_check result = check(all, costs, buffers);
          ASSERT_EQ(result.problem, "") << buffers << " buffers";
          for (int rank = 0; rank < ranks; ++rank) {
            EXPECT_LE(result.peak_stash[static_cast<std::size_t>(rank)],
                      published_stash(shape, rank, all.chunks))
                << "rank " << rank;
          }
        }
        const schedule_check result = check(all, costs);
        EXPECT_EQ(hash_of(all), hash_of(make_schedule(shape)));
        const std::int64_t slots = published_slots(shape, all.chunks);
        if (micro_batches == 0) {
          EXPECT_EQ(result.slots, 0);
          EXPECT_EQ(result.bubble(), 0);
        } else if (slots > 0) {
          EXPECT_EQ(result.slots, slots);
          for (int rank = 0; rank < ranks; ++rank) {
            const double busy = 3.0 * all.chunks * micro_batches;
            EXPECT_DOUBLE_EQ(result.bubble(rank), 1 - busy / static_cast<double>(slots));
            if (micro_batches < 2 * ranks) continue;
            EXPECT_EQ(result.peak_stash[static_cast<std::size_t>(rank)],
                      published_stash(shape, rank, all.chunks));
          }
        }
      }
    }
  }
}

TEST(Schedule, LargePipelinesDoNotDeadlock) {
  for (const int ranks : {9, 16, 32}) {
    for (const int micro_batches : {ranks - 1, ranks + 1, 2 * ranks - 1, 3 * ranks + ranks / 2}) {
      for (const pipeline_shape& shape : shapes_of(ranks, micro_batches)) {
        EXPECT_EQ(check(make_schedule(shape)).problem, "") << text_of(shape);
      }
    }
  }
}

TEST(Schedule, UnevenStagesTakeNoLongerThanInTheOrderOfZbV) {
  int faster = 0;
  std::uint32_t random = 1;
  const auto next = [&random](int below) {
    random = random * 1664525 + 1013904223;
    return static_cast<int>((random >> 16) % static_cast<std::uint32_t>(below));
  };
  for (int round = 0; round < 60; ++round) {
    pipeline_shape shape{.kind = pipeline_kind::v_uneven, .ranks = 1 + next(6)};
    shape.micro_batches = next(20);
    for (int stage = 0; stage < 2 * shape.ranks; ++stage) {
      const int layers = 1 + next(4);
      shape.costs.push_back({2 * layers, 2 * layers + next(2), 2 * layers - next(2)});
    }
    SCOPED_TRACE(text_of(shape));
    const schedule_check uneven = check(make_schedule(shape), shape.costs);
    const schedule_check even =
        check(make(pipeline_kind::zb_v, shape.ranks, shape.micro_batches), shape.costs);
    ASSERT_EQ(uneven.problem, "");
    EXPECT_LE(uneven.slots, even.slots);
    faster += uneven.slots < even.slots ? 1 : 0;
    for (const int peak : uneven.peak_stash) EXPECT_LE(peak, 2 * shape.ranks);
    for (const int limit : {2, 3, shape.ranks + 1}) {
      if (limit < 2) continue;
      shape.max_stash = limit;
      const schedule_check limited = check(make_schedule(shape), shape.costs);
      ASSERT_EQ(limited.problem, "");
      for (const int peak : limited.peak_stash) EXPECT_LE(peak, limit);
    }
  }
  EXPECT_GT(faster, 10);
}

TEST(Schedule, RefusesInvalidShapes) {
  const auto problem_of = [](const pipeline_shape& shape) -> std::string {
    try {
      make_schedule(shape);
    } catch (const error& e) {
      EXPECT_EQ(e.code(), errc::bad_input);
      return e.what();
    }
    return "none";
  };
  EXPECT_NE(problem_of({.kind = pipeline_kind::gpipe, .ranks = 0}).find("gpipe: 0 ranks"),
            std::string::npos);
  EXPECT_NE(problem_of({.ranks = 2, .micro_batches = -1}).find("-1 micro-batches"),
            std::string::npos);
  EXPECT_NE(problem_of({.ranks = 2, .micro_batches = 1 << 30}).find("out of range"),
            std::string::npos);
  EXPECT_NE(
      problem_of({.kind = pipeline_kind::zb_v, .chunks = 3}).find("zb_v: 3 chunks, but it has 2"),
      std::string::npos);
  EXPECT_NE(
      problem_of({.kind = pipeline_kind::v_uneven, .costs = {{1, 1, 1}}}).find("1 costs for 2"),
      std::string::npos);
  EXPECT_NE(problem_of({.costs = {{1, 0, 1}}}).find("the cost 0"), std::string::npos);
  EXPECT_NE(problem_of({.kind = pipeline_kind::v_uneven, .max_stash = 1}).find("limit of 1"),
            std::string::npos);
  EXPECT_NE(problem_of({.kind = static_cast<pipeline_kind>(77)}).find("no such"),
            std::string::npos);
  EXPECT_EQ(find_pipeline_kind("1f1b"), pipeline_kind::one_f_one_b);
  for (const pipeline_kind each : pipeline_kinds()) EXPECT_EQ(find_pipeline_kind(name(each)), each);
  EXPECT_THROW(find_pipeline_kind("zbv"), error);
}

TEST(ScheduleCheck, DetectsBackwardOutOfOrder) {
  pipeline_schedule bad = make(pipeline_kind::gpipe, 2, 2);
  std::swap(bad.ranks[1][2], bad.ranks[1][3]);
  EXPECT_EQ(check(bad).problem, "rank 1: backward of micro-batch 1 where 0 is expected");
}

TEST(ScheduleCheck, DetectsMissingStep) {
  pipeline_schedule bad = make(pipeline_kind::one_f_one_b, 3, 4);
  bad.ranks[2].pop_back();
  EXPECT_EQ(check(bad).problem, "rank 2: 4 forwards and 3 backwards of 4 micro-batches");
  bad = make(pipeline_kind::zb_v, 2, 4);
  bad.ranks[0].pop_back();
  EXPECT_EQ(check(bad).problem,
            "rank 0: 4 forwards and 4 backwards of 4 micro-batches, 3 weight parts");
}

TEST(ScheduleCheck, DetectsBackwardBeforeForward) {
  pipeline_schedule bad = make(pipeline_kind::one_f_one_b, 1, 2);
  std::swap(bad.ranks[0][0], bad.ranks[0][1]);
  EXPECT_EQ(check(bad).problem, "rank 0: backward of micro-batch 0 before its forward");
}

TEST(ScheduleCheck, DetectsWeightPartsOutOfOrder) {
  pipeline_schedule bad{pipeline_placement::looped, 1, 2, {{}}};
  bad.ranks[0] = {{forward, 0}, {forward, 1}, {input, 0}, {input, 1}, {weights, 1}, {weights, 0}};
  EXPECT_EQ(check(bad).problem, "rank 0: backward weights of micro-batch 1 where 0 is expected");
  bad.ranks[0] = {{forward, 0}, {forward, 1}, {input, 0}, {backward, 1}, {weights, 0}};
  EXPECT_EQ(check(bad).problem, "rank 0: backward of micro-batch 1 before the weight part of 0");
  bad.ranks[0] = {{forward, 0}, {weights, 0}, {input, 0}, {forward, 1}, {backward, 1}};
  EXPECT_EQ(check(bad).problem, "rank 0: backward weights of micro-batch 0 before its input part");
}

TEST(ScheduleCheck, DetectsRepeatedAndStrayChunks) {
  pipeline_schedule bad = make(pipeline_kind::zb_v, 1, 1);
  bad.ranks[0][1].chunk = 2;
  EXPECT_EQ(check(bad).problem, "rank 0: a step of chunk 2, but there are 2");
  bad = make(pipeline_kind::zb_v, 1, 1);
  bad.ranks[0][1].chunk = 0;
  EXPECT_EQ(check(bad).problem, "rank 0: forward of micro-batch 0 in chunk 0 where 1 is expected");
  EXPECT_EQ(check({pipeline_placement::v, 0, 1, {{}}}).problem,
            "1 ranks with 0 chunks of 1 micro-batches");
  EXPECT_EQ(check({}).problem, "0 ranks with 1 chunks of 0 micro-batches");
}

TEST(ScheduleCheck, DetectsDeadlock) {
  // The first rank waits for a gradient before it has sent the input that the last rank needs.
  pipeline_schedule bad = make(pipeline_kind::one_f_one_b, 2, 3);
  std::swap(bad.ranks[0], bad.ranks[1]);
  EXPECT_EQ(check(bad).problem,
            "deadlock between the ranks: rank 0 at backward of micro-batch 0; "
            "rank 1 at forward of micro-batch 1");
}

TEST(ScheduleCheck, DetectsDeadlockOfFullBuffers) {
  // Chunk 1 begins when all of chunk 0 is done: more micro-batches than there are buffers.
  for (const int count : {pipeline_buffers, pipeline_buffers + 1}) {
    pipeline_schedule all{pipeline_placement::looped, 2, count, {{}}};
    for (const int chunk : {0, 1}) {
      for (int m = 0; m < count; ++m) all.ranks[0].push_back({forward, m, chunk});
    }
    for (const int chunk : {1, 0}) {
      for (int m = 0; m < count; ++m) all.ranks[0].push_back({backward, m, chunk});
    }
    EXPECT_EQ(check(all).problem,
              count == pipeline_buffers
                  ? ""
                  : "deadlock between the ranks: rank 0 at forward of micro-batch 4 in chunk 0");
  }
}

TEST(ScheduleCheck, HashDiffersForEveryChange) {
  const pipeline_schedule all = make(pipeline_kind::zb_v, 2, 3);
  pipeline_schedule other = all;
  std::swap(other.ranks[0][1], other.ranks[0][2]);
  EXPECT_NE(hash_of(other), hash_of(all));
  other = all;
  other.placement = pipeline_placement::looped;
  EXPECT_NE(hash_of(other), hash_of(all));
  other = all;
  std::swap(other.ranks[0], other.ranks[1]);
  EXPECT_NE(hash_of(other), hash_of(all));
}

TEST(SchedulePrint, ShowsEveryRankAndSlot) {
  EXPECT_EQ(print(make(pipeline_kind::one_f_one_b, 3, 4)),
            "rank 0  F0 F1 F2 .. .. B0 F3 B1 .. B2 .. B3\n"
            "rank 1  .. F0 F1 .. B0 F2 B1 F3 B2 .. B3\n"
            "rank 2  .. .. F0 B0 F1 B1 F2 B2 F3 B3\n");
  EXPECT_EQ(print(make(pipeline_kind::gpipe, 2, 3)),
            "rank 0  F0 F1 F2 .. .. B0 B1 B2\n"
            "rank 1  .. F0 F1 F2 B0 B1 B2\n");
  EXPECT_EQ(print(make(pipeline_kind::zb_h1, 2, 3)),
            "rank 0  F0 F1 .. I0 W0 F2 I1 W1 I2 W2\n"
            "rank 1  .. F0 I0 F1 I1 W0 F2 I2 W1 W2\n");
  EXPECT_EQ(print(make(pipeline_kind::zb_v, 2, 2)),
            "rank 0  F0a F1a ..  F0b I0b W0b F1b I1b W1b I0a W0a ..  I1a W1a\n"
            "rank 1  ..  F0a F0b F1a F1b I0b W0b I0a W0a I1b W1b I1a W1a\n");
}

TEST(SchedulePrint, ShowsDurations) {
  const pipeline_schedule all = make(pipeline_kind::gpipe, 2, 1);
  const stage_cost costs[] = {{1, 1, 1}, {2, 1, 2}};
  EXPECT_EQ(print(all, costs),
            "rank 0  F0 .. .. .. .. .. B0 --\n"
            "rank 1  .. F0 -- B0 -- --\n");
}

TEST(SchedulePrint, EndsWithTheProblem) {
  pipeline_schedule bad = make(pipeline_kind::one_f_one_b, 2, 1);
  bad.ranks[0].clear();
  EXPECT_NE(print(bad).find("rank 0: 0 forwards and 0 backwards of 1 micro-batches\n"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem
