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

using test::both_kinds;
using test::integer_stage;
using test::job;
using test::make_stages;
using test::small_pieces;
using test::stage_list;

/// Throws or never completes in one of its calls.
class bad_stage final : public integer_stage {
 public:
  enum class fault { throws, sticks };
  bad_stage(fault what, int at_call, int stage, int stages, int micro_batches)
      : integer_stage(stage, stages, micro_batches, 200), what_(what), calls_left_(at_call) {}

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
  for (const pipeline_kind kind : both_kinds) {
    for (int bad = 0; bad < 3; ++bad) {
      for (int call = 0; call < 8; ++call) {
        SCOPED_TRACE(testing::Message() << name(kind) << ", stage " << bad << ", call " << call);
        const pipeline_schedule steps = make_schedule(kind, bad, 3, 4);
        int last_forward = 7;
        while (steps[static_cast<std::size_t>(last_forward)].what != pipeline_step::forward) {
          --last_forward;
        }
        job ranks(3, small_pieces());
        stage_list all = make_stages(3, 4, 200);
        all[static_cast<std::size_t>(bad)] =
            std::make_unique<bad_stage>(bad_stage::fault::throws, call, bad, 3, 4);
        ASSERT_NE(ranks.run([&](int r) {
          return run_pipeline(ranks.world(r), kind, 4, *all[static_cast<std::size_t>(r)]);
        }),
                  "hangs");
        EXPECT_EQ(ranks.text(bad), "out of paper");
        for (int r = 0; r < 3; ++r) {
          // Later stages need only its forwards; earlier stages need all its backwards.
          const bool may_be_done = r > bad && last_forward < call;
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
  job ranks(3, small_pieces());
  stage_list all = make_stages(3, 4, 200);
  all[1] = std::make_unique<bad_stage>(bad_stage::fault::sticks, 3, 1, 3, 4);
  ranks.start([&](int r) {
    asio::awaitable<void> run = run_pipeline(ranks.world(r), pipeline_kind::one_f_one_b, 4,
                                             *all[static_cast<std::size_t>(r)]);
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

TEST(Pipeline, DifferentActivationSizesFail) {
  for (const std::size_t length : {std::size_t{10}, std::size_t{1000}}) {
    job ranks(2, small_pieces());
    stage_list all;
    all.push_back(std::make_unique<integer_stage>(0, 2, 3, 100));
    all.push_back(std::make_unique<integer_stage>(1, 2, 3, length));
    ASSERT_NE(ranks.run([&](int r) {
      return run_pipeline(ranks.world(r), pipeline_kind::gpipe, 3,
                          *all[static_cast<std::size_t>(r)]);
    }),
              "hangs");
    for (int r = 0; r < 2; ++r) EXPECT_EQ(ranks.code(r), errc::call_mismatch) << ranks.text(r);
  }
}

TEST(Pipeline, RefusesInvalidArguments) {
  job ranks(1);
  integer_stage work(0, 1, 4, 10);
  const auto run = [&](int) {
    return run_pipeline(ranks.world(0), pipeline_kind::gpipe, -1, work);
  };
  ASSERT_NE(ranks.run(run), "hangs");
  EXPECT_EQ(ranks.code(0), errc::bad_input) << ranks.text(0);
}

/// Stopping the program in any stage or transfer must not leak or access memory late.
TEST(Pipeline, StoppingAfterAnyStepIsSafe) {
  for (const pipeline_kind kind : both_kinds) {
    bool ended = false;
    for (int steps = 0; !ended; ++steps) {
      ASSERT_LT(steps, 10000);
      stage_list all = make_stages(3, 3, 200);
      all[1] = std::make_unique<bad_stage>(bad_stage::fault::sticks, steps % 7, 1, 3, 3);
      job ranks(3, small_pieces());
      ranks.start([&](int r) {
        return run_pipeline(ranks.world(r), kind, 3, *all[static_cast<std::size_t>(r)]);
      });
      int left = steps;
      while (left > 0 && ranks.context.poll_one() > 0) --left;
      ended = left > 0 && steps % 7 == 6;
    }
  }
}

}  // namespace
}  // namespace tandem
