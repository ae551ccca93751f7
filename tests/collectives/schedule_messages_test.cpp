// The time of messages in the simulation of a schedule.
#include <gtest/gtest.h>

#include <tandem/pipeline_schedule.hpp>

#include "collectives/integer_stage.hpp"

namespace tandem {
namespace {

using test::shapes_of;
using test::text_of;
using slots = std::vector<std::int64_t>;

struct prediction_case {
  pipeline_kind kind;
  message_cost messages;
  std::int64_t total;
  slots waits;  ///< of each rank for messages
};

/// Two ranks and three micro-batches; a forward takes 2, both parts of a backward 1 each.
void PrintTo(const prediction_case& of, std::ostream* to) {
  *to << name(of.kind) << ", " << of.messages.transmission << " + " << of.messages.latency;
}

class MessageTimes : public testing::TestWithParam<prediction_case> {};

TEST_P(MessageTimes, AreAsComputedByHand) {
  const prediction_case& expected = GetParam();
  const pipeline_schedule all =
      make_schedule({.kind = expected.kind, .ranks = 2, .micro_batches = 3});
  const stage_cost costs[] = {{2, 1, 1}, {2, 1, 1}};
  const pipeline_prediction found = predict(all, costs, expected.messages);
  ASSERT_EQ(found.simulated.problem, "");
  EXPECT_EQ(found.simulated.slots, expected.total);
  EXPECT_EQ(found.simulated.message_slots, expected.waits);
  EXPECT_EQ(found.compute_slots, 12);
  EXPECT_EQ(found.bubble_slots + found.link_slots, expected.total - 12);
  const pipeline_prediction at_once = predict(all, costs, {});
  EXPECT_EQ(found.bubble_slots, at_once.bubble_slots);
  EXPECT_EQ(at_once.link_slots, 0);
  EXPECT_EQ(at_once.simulated.message_slots, (slots{0, 0}));
}

INSTANTIATE_TEST_SUITE_P(
    Of, MessageTimes,
    testing::Values(
        prediction_case{pipeline_kind::gpipe, {0, 0}, 16, {0, 0}},
        prediction_case{pipeline_kind::gpipe, {1, 0}, 18, {1, 1}},
        prediction_case{pipeline_kind::gpipe, {2, 0}, 20, {2, 2}},
        // Two messages of a flow may be in flight: F2 and B2 wait for a buffer, too.
        prediction_case{pipeline_kind::gpipe, {3, 0}, 26, {6, 6}},
        // Messages follow each other at the rate of the computation: latency counts once.
        prediction_case{pipeline_kind::gpipe, {1, 1}, 20, {2, 2}},
        prediction_case{pipeline_kind::one_f_one_b, {0, 0}, 16, {0, 0}},
        // Only one forward is ahead: later round trips are not hidden either.
        prediction_case{pipeline_kind::one_f_one_b, {1, 0}, 20, {2, 2}},
        prediction_case{pipeline_kind::one_f_one_b, {2, 0}, 24, {4, 4}},
        prediction_case{pipeline_kind::one_f_one_b, {3, 0}, 28, {6, 6}},
        prediction_case{pipeline_kind::one_f_one_b, {1, 1}, 24, {4, 4}}));

/// Chunks share the link from rank 0 to rank 1: the activations of both, and the gradients of
/// chunk 1.
TEST(Messages, OfAllChunksShareALink) {
  const pipeline_schedule all{pipeline_placement::looped,
                              2,
                              1,
                              {{{pipeline_step::forward, 0, 0},
                                {pipeline_step::forward, 0, 1},
                                {pipeline_step::backward, 0, 1},
                                {pipeline_step::backward, 0, 0}},
                               {{pipeline_step::forward, 0, 0},
                                {pipeline_step::forward, 0, 1},
                                {pipeline_step::backward, 0, 1},
                                {pipeline_step::backward, 0, 0}}}};
  const std::vector<stage_cost> costs(4);
  // Eight steps, four forwards of 1 and four backwards of 2, in a line, with six messages between.
  const schedule_check found = check(all, costs, pipeline_buffers, {5, 1});
  EXPECT_EQ(found.slots, 12 + 6 * 6);
  EXPECT_EQ(found.begin_slots[0], (slots{0, 14, 30, 46}));
  EXPECT_EQ(found.begin_slots[1], (slots{7, 21, 22, 38}));
}

TEST(Messages, OfInterleavedChunks) {
  const pipeline_schedule all =
      make_schedule({.kind = pipeline_kind::interleaved, .ranks = 2, .micro_batches = 2});
  const std::vector<stage_cost> costs(4);
  ASSERT_EQ(print(all, costs),
            "rank 0  F0a F1a F0b F1b ..  ..  B0b --  ..  B1b --  B0a --  B1a --\n"
            "rank 1  ..  F0a F1a F0b B0b --  F1b B1b --  B0a --  B1a --\n");
  const pipeline_prediction found = predict(all, costs, {2, 0});
  EXPECT_EQ(found.simulated.slots, 27);
  EXPECT_EQ(found.simulated.begin_slots[0], (slots{0, 1, 6, 8, 14, 17, 22, 25}));
  EXPECT_EQ(found.simulated.begin_slots[1], (slots{3, 5, 9, 10, 12, 13, 18, 21}));
  EXPECT_EQ(found.simulated.message_slots, (slots{9, 8}));
  EXPECT_EQ(found.compute_slots, 12);
  EXPECT_EQ(found.bubble_slots, 3);
  EXPECT_EQ(found.link_slots, 12);
}

/// A rank's messages to itself take no time.
TEST(Messages, OfOneRankTakeNoTime) {
  for (const pipeline_shape& shape : shapes_of(1, 4)) {
    const pipeline_schedule all = make_schedule(shape);
    const std::vector<stage_cost> costs(static_cast<std::size_t>(all.stages()));
    EXPECT_EQ(predict(all, costs, {100, 100}).link_slots, 0) << text_of(shape);
  }
}

TEST(Messages, DelayEverySchedule) {
  for (int ranks = 2; ranks <= 5; ++ranks) {
    for (const pipeline_shape& shape : shapes_of(ranks, 7, 3)) {
      SCOPED_TRACE(text_of(shape));
      const pipeline_schedule all = make_schedule(shape);
      const std::vector<stage_cost> costs(static_cast<std::size_t>(all.stages()), {2, 2, 2});
      std::int64_t last = 0;
      for (const message_cost messages :
           {message_cost{0, 0}, {1, 0}, {1, 3}, {2, 3}, {8, 3}, {50, 3}}) {
        for (const int buffers : {1, 2, pipeline_buffers}) {
          ASSERT_EQ(check(all, costs, buffers, messages).problem, "") << buffers << " buffers";
        }
        const pipeline_prediction found = predict(all, costs, messages);
        EXPECT_GT(found.simulated.slots, last);
        last = found.simulated.slots;
        EXPECT_EQ(found.simulated.slots,
                  found.compute_slots + found.bubble_slots + found.link_slots);
        // The link carries the messages of one direction one after the other.
        EXPECT_GE(last, 7 * messages.transmission + messages.latency);
      }
      EXPECT_EQ(predict(all, costs, {50, 3}).decides(), pipeline_limit::link);
    }
  }
}

TEST(Messages, AloneDecideIfTheyTakeMoreThanTheBubble) {
  const pipeline_schedule all =
      make_schedule({.kind = pipeline_kind::gpipe, .ranks = 2, .micro_batches = 8});
  const std::vector<stage_cost> costs(2, {100, 100, 100});
  EXPECT_EQ(predict(all, costs, {}).decides(), pipeline_limit::bubble);
  EXPECT_EQ(predict(all, costs, {0, 100}).decides(), pipeline_limit::bubble);
  EXPECT_EQ(predict(all, costs, {0, 151}).decides(), pipeline_limit::link);
  const pipeline_schedule alone =
      make_schedule({.kind = pipeline_kind::gpipe, .ranks = 1, .micro_batches = 8});
  EXPECT_EQ(predict(alone, costs, {0, 151}).decides(), pipeline_limit::compute);
  EXPECT_EQ(name(pipeline_limit::link), "link");
}

TEST(Messages, OfABadScheduleAreNotPredicted) {
  pipeline_schedule bad =
      make_schedule({.kind = pipeline_kind::gpipe, .ranks = 2, .micro_batches = 2});
  std::swap(bad.ranks[0][2], bad.ranks[0][3]);
  const pipeline_prediction found = predict(bad, {}, {1, 1});
  EXPECT_NE(found.simulated.problem, "");
  EXPECT_EQ(found.compute_slots + found.bubble_slots + found.link_slots, 0);
}

}  // namespace
}  // namespace tandem
