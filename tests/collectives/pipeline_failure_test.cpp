#include <gtest/gtest.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <stdexcept>
#include <tandem/async.hpp>
#include <tandem/pipeline.hpp>

#include "collectives/integer_stage.hpp"
#include "collectives/job.hpp"

namespace tandem {
namespace {

using test::integer_stage;
using test::job;
using test::make_stages;
using test::shapes_of;
using test::small_pieces;
using test::stage_list;
using test::text_of;

/// Throws or never completes in one of its calls.
class bad_stage final : public integer_stage {
 public:
  enum class fault { throws, sticks };
  bad_stage(fault what, int at_call, int rank, const pipeline_schedule& all)
      : integer_stage(rank, all, 200), what_(what), calls_left_(at_call) {}

 private:
  asio::awaitable<void> compute() override {
    if (calls_left_-- != 0) co_return;
    if (what_ == fault::throws) throw std::runtime_error("out of paper");
    const asio::any_io_executor here = co_await asio::this_coro::executor;
    asio::steady_timer never(here, asio::steady_timer::time_point::max());
    co_await never.async_wait(asio::use_awaitable);
  }
  fault what_;
  int calls_left_;
};

TEST(Pipeline, ThrowingStageEndsAllRanks) {
  for (const pipeline_shape& shape : shapes_of(3, 4, 2)) {
    const pipeline_schedule schedule = make_schedule(shape);
    for (int bad = 0; bad < 3; ++bad) {
      const pipeline_steps& steps = schedule.ranks[static_cast<std::size_t>(bad)];
      for (int call = 0; call < static_cast<int>(steps.size()); ++call) {
        SCOPED_TRACE(testing::Message() << text_of(shape) << ", rank " << bad << ", call " << call);
        // Nothing waits for weight parts at the end; with one chunk, later ranks need forwards
        // only.
        int last_needed = static_cast<int>(steps.size()) - 1;
        while (steps[static_cast<std::size_t>(last_needed)].what ==
               pipeline_step::backward_weights) {
          --last_needed;
        }
        int last_forward = last_needed;
        while (steps[static_cast<std::size_t>(last_forward)].what != pipeline_step::forward) {
          --last_forward;
        }
        job ranks(3, small_pieces());
        stage_list all = make_stages(schedule, 200);
        all[static_cast<std::size_t>(bad)] =
            std::make_unique<bad_stage>(bad_stage::fault::throws, call, bad, schedule);
        ASSERT_NE(ranks.run([&](int r) {
          return run_pipeline(ranks.world(r), schedule, *all[static_cast<std::size_t>(r)]);
        }),
                  "hangs");
        EXPECT_EQ(ranks.text(bad), "out of paper");
        for (int r = 0; r < 3; ++r) {
          const bool is_last_step_of_chunk = schedule.chunks > 1;
          const bool may_be_done =
              call > last_needed || is_last_step_of_chunk || (r > bad && last_forward < call);
          if (r == bad || (may_be_done && !ranks.code(r))) continue;
          EXPECT_EQ(ranks.code(r), errc::peer_lost) << ranks.text(r);
          EXPECT_EQ(ranks.why(r).peer, bad);
          EXPECT_NE(ranks.text(r).find("out of paper"), std::string::npos) << ranks.text(r);
        }
      }
    }
  }
}

TEST(Pipeline, CancellingBlockedStageEndsAllRanks) {
  for (const pipeline_shape& shape : shapes_of(3, 4, 2)) {
    SCOPED_TRACE(text_of(shape));
    const pipeline_schedule schedule = make_schedule(shape);
    job ranks(3, small_pieces());
    stage_list all = make_stages(schedule, 200);
    all[1] = std::make_unique<bad_stage>(bad_stage::fault::sticks, 3, 1, schedule);
    ranks.start([&](int r) {
      asio::awaitable<void> run =
          run_pipeline(ranks.world(r), schedule, *all[static_cast<std::size_t>(r)]);
      if (r != 1) return run;
      return with_deadline(std::chrono::milliseconds(5), std::move(run), "a short try");
    });
    ASSERT_TRUE(ranks.finish());
    EXPECT_EQ(ranks.code(1), errc::timed_out) << ranks.text(1);
    for (const int r : {0, 2}) {
      EXPECT_EQ(ranks.code(r), errc::message_cancelled) << ranks.text(r);
      EXPECT_EQ(ranks.why(r).peer, 1);
    }
  }
}

TEST(Pipeline, DifferentActivationSizesFail) {
  const pipeline_schedule schedule =
      make_schedule({.kind = pipeline_kind::gpipe, .ranks = 2, .micro_batches = 3});
  for (const std::size_t length : {std::size_t{10}, std::size_t{1000}}) {
    job ranks(2, small_pieces());
    stage_list all;
    all.push_back(std::make_unique<integer_stage>(0, schedule, 100));
    all.push_back(std::make_unique<integer_stage>(1, schedule, length));
    ASSERT_NE(ranks.run([&](int r) {
      return run_pipeline(ranks.world(r), schedule, *all[static_cast<std::size_t>(r)]);
    }),
              "hangs");
    for (int r = 0; r < 2; ++r) EXPECT_EQ(ranks.code(r), errc::call_mismatch) << ranks.text(r);
  }
}

TEST(Pipeline, DifferentSchedulesFail) {
  for (const pipeline_kind other :
       {pipeline_kind::gpipe, pipeline_kind::zb_h1, pipeline_kind::interleaved}) {
    for (const int micro_batches : {4, 5}) {
      SCOPED_TRACE(testing::Message() << name(other) << ", " << micro_batches);
      const pipeline_schedule schedules[] = {
          make_schedule({.ranks = 3, .micro_batches = 4}),
          make_schedule({.kind = other, .ranks = 3, .micro_batches = micro_batches})};
      job ranks(3, small_pieces());
      std::vector<std::unique_ptr<integer_stage>> all;
      for (int r = 0; r < 3; ++r) {
        all.push_back(std::make_unique<integer_stage>(r, schedules[r == 2 ? 1 : 0], 100));
      }
      ASSERT_NE(ranks.run([&](int r) {
        return run_pipeline(ranks.world(r), schedules[r == 2 ? 1 : 0],
                            *all[static_cast<std::size_t>(r)]);
      }),
                "hangs");
      for (int r = 0; r < 3; ++r) EXPECT_EQ(ranks.code(r), errc::call_mismatch) << ranks.text(r);
      EXPECT_NE(ranks.text(2).find("different pipeline schedules"), std::string::npos)
          << ranks.text(2);
    }
  }
}

/// Chunks whose messages differ in length.
class uneven_chunks final : public integer_stage {
 public:
  using integer_stage::integer_stage;
  std::size_t input_bytes(int chunk) const override { return chunk == 0 ? 8 : 16; }
};

TEST(Pipeline, RefusesInvalidSchedules) {
  job ranks(1);
  const pipeline_schedule good = make_schedule({.kind = pipeline_kind::zb_v, .micro_batches = 2});
  integer_stage work(0, good, 10);
  uneven_chunks uneven(0, good, 1);
  const auto text_of_run = [&](const pipeline_schedule& all, pipeline_stage& stage) {
    EXPECT_NE(ranks.run([&](int) { return run_pipeline(ranks.world(0), all, stage); }), "hangs");
    EXPECT_EQ(ranks.code(0), errc::bad_input) << ranks.text(0);
    return ranks.text(0);
  };
  pipeline_schedule bad = good;
  std::swap(bad.ranks[0][0], bad.ranks[0][1]);
  EXPECT_NE(text_of_run(bad, work).find("micro-batch"), std::string::npos);
  bad = good;
  bad.ranks.push_back(bad.ranks[0]);
  EXPECT_NE(text_of_run(bad, work).find("a schedule of 2 ranks in a group of 1"),
            std::string::npos);
  EXPECT_NE(text_of_run(good, uneven).find("8 bytes from chunk 0, 16 into chunk 1"),
            std::string::npos);
  ASSERT_EQ(ranks.run([&](int) { return run_pipeline(ranks.world(0), good, work); }), "")
      << "refusals end no communicator";
}

/// What was accepted once makes nothing else acceptable.
TEST(Pipeline, RefusesInvalidSchedulesAfterValidOnes) {
  job ranks(1);
  const pipeline_schedule good = make_schedule({.kind = pipeline_kind::zb_v, .micro_batches = 2});
  integer_stage work(0, good, 10);
  pipeline_schedule given = good;
  const auto run = [&](int) { return run_pipeline(ranks.world(0), given, work); };
  const auto expect_refusal = [&] {
    for (int turn = 0; turn < 2; ++turn) {
      EXPECT_NE(ranks.run(run), "hangs");
      EXPECT_EQ(ranks.code(0), errc::bad_input) << ranks.text(0);
    }
    given = good;
    ASSERT_EQ(ranks.run(run), "");
  };
  ASSERT_EQ(ranks.run(run), "");
  std::swap(given.ranks[0][0], given.ranks[0][1]);
  expect_refusal();
  given.micro_batches = 3;
  expect_refusal();
  given.chunks = 1;
  expect_refusal();
  given.ranks.push_back(good.ranks[0]);
  expect_refusal();
  given.ranks[0].pop_back();
  expect_refusal();
  // A chunk that no valid step has, in place of a kind: the hash does not differ.
  pipeline_step& input_part = given.ranks[0][2];
  ASSERT_EQ(input_part.what, pipeline_step::backward_input);
  input_part.what = pipeline_step::forward;
  input_part.chunk |= int{pipeline_step::backward_input} << 24;
  EXPECT_EQ(hash_of(given), hash_of(good));
  expect_refusal();
}

TEST(Pipeline, RunsOtherSchedulesBetween) {
  job ranks(2, small_pieces());
  const pipeline_kind kinds[] = {pipeline_kind::one_f_one_b, pipeline_kind::gpipe,
                                 pipeline_kind::v_uneven};
  for (int turn = 0; turn < 3; ++turn) {
    for (const pipeline_kind kind : kinds) {
      for (const int micro_batches : {3, 3, 4}) {
        const pipeline_schedule all =
            make_schedule({.kind = kind, .ranks = 2, .micro_batches = micro_batches});
        const stage_list work = make_stages(all, 10);
        ASSERT_EQ(ranks.run([&](int r) {
          pipeline_stage& own = *work[static_cast<std::size_t>(r)];
          return turn == 1 ? run_pipeline(ranks.world(r), all, own)
                           : run_pipeline(ranks.world(r), kind, micro_batches, own);
        }),
                  "");
        for (std::size_t r = 0; r < 2; ++r) EXPECT_EQ(work[r]->done, all.ranks[r]);
      }
    }
  }
}

TEST(Pipeline, RefusesInvalidArguments) {
  job ranks(1);
  integer_stage work(0, make_schedule({.micro_batches = 4}), 10);
  const auto run = [&](int) {
    return run_pipeline(ranks.world(0), pipeline_kind::gpipe, -1, work);
  };
  ASSERT_NE(ranks.run(run), "hangs");
  EXPECT_EQ(ranks.code(0), errc::bad_input) << ranks.text(0);
}

/// Stopping the program in any stage or transfer must not leak or access memory late.
TEST(Pipeline, StoppingAfterAnyStepIsSafe) {
  for (const pipeline_shape& shape : shapes_of(3, 3, 2)) {
    SCOPED_TRACE(text_of(shape));
    const pipeline_schedule schedule = make_schedule(shape);
    const int calls = static_cast<int>(schedule.ranks[1].size()) + 1;
    bool ended = false;
    for (int steps = 0; !ended; ++steps) {
      ASSERT_LT(steps, 10000);
      stage_list all = make_stages(schedule, 200);
      all[1] = std::make_unique<bad_stage>(bad_stage::fault::sticks, steps % calls, 1, schedule);
      job ranks(3, small_pieces());
      ranks.start([&](int r) {
        return run_pipeline(ranks.world(r), schedule, *all[static_cast<std::size_t>(r)]);
      });
      int left = steps;
      while (left > 0 && ranks.context.poll_one() > 0) --left;
      ended = left > 0 && steps % calls == calls - 1;
    }
  }
}

}  // namespace
}  // namespace tandem
