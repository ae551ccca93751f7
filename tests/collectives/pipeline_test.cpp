#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/pipeline.hpp>

#include "collectives/integer_stage.hpp"
#include "collectives/job.hpp"

namespace tandem {
namespace {

using test::integer_stage;
using test::job;
using test::make_stages;
using test::numbers;
using test::shapes_of;
using test::small_pieces;
using test::stage_list;
using test::text_of;

struct expected {
  numbers outcome, gradient;
  std::vector<numbers> weights;  ///< by stage: what the micro-batch adds
};

/// The same computation in one process.
expected serial(int stages, int micro_batch, std::size_t length) {
  expected e{integer_stage::source(micro_batch, length), numbers(length, 1), {}};
  std::vector<numbers> inputs;
  for (int s = 0; s < stages; ++s) {
    inputs.push_back(e.outcome);
    for (std::int64_t& x : e.outcome) x = 3 * x + s;
  }
  e.weights.resize(static_cast<std::size_t>(stages));
  for (std::size_t s = inputs.size(); s-- > 0;) {
    for (std::size_t i = 0; i < length; ++i) e.gradient[i] = 2 * e.gradient[i] + inputs[s][i];
    e.weights[s] = e.gradient;
  }
  return e;
}

/// Runs the schedule and expects what one process computes.
void expect_serial_results(job& ranks, const pipeline_schedule& all, std::size_t length,
                           bool splits) {
  const stage_list work = make_stages(all, length, splits);
  ASSERT_EQ(ranks.run([&](int r) {
    return run_pipeline(ranks.world(r), all, *work[static_cast<std::size_t>(r)]);
  }),
            "");
  const chunk_location last = location_of(all.placement, all.stages() - 1, all.size());
  const std::vector<numbers>& outcomes = work[static_cast<std::size_t>(last.rank)]->outcomes;
  const std::vector<numbers>& gradients = work[0]->gradients;
  ASSERT_EQ(outcomes.size(), static_cast<std::size_t>(all.micro_batches));
  ASSERT_EQ(gradients.size(), outcomes.size());
  std::vector<numbers> weights(static_cast<std::size_t>(all.stages()), numbers(length));
  for (std::size_t m = 0; m < outcomes.size(); ++m) {
    const expected e = serial(all.stages(), static_cast<int>(m), length);
    EXPECT_EQ(outcomes[m], e.outcome);
    EXPECT_EQ(gradients[m], e.gradient);
    for (std::size_t s = 0; s < weights.size(); ++s) integer_stage::add(weights[s], e.weights[s]);
  }
  const schedule_check simulated = check(all);
  for (std::size_t r = 0; r < work.size(); ++r) {
    const integer_stage& one = *work[r];
    for (int chunk = 0; chunk < all.chunks; ++chunk) {
      EXPECT_EQ(one.weights(chunk), weights[static_cast<std::size_t>(one.stage(chunk))]);
    }
    EXPECT_EQ(one.held, 0);
    if (!splits) continue;
    EXPECT_EQ(one.done, all.ranks[r]);
    EXPECT_EQ(one.peak, simulated.peak_stash[r]);
  }
}

TEST(Pipeline, MatchesSingleProcess) {
  for (int size = 1; size <= 4; ++size) {
    job ranks(size, small_pieces());
    for (const int micro_batches : {0, 1, 2, 3, 8}) {
      for (const pipeline_shape& shape : shapes_of(size, micro_batches)) {
        for (const std::size_t length : {std::size_t{1}, std::size_t{1000}}) {
          SCOPED_TRACE(testing::Message() << text_of(shape) << " of " << length);
          expect_serial_results(ranks, make_schedule(shape), length, true);
        }
      }
    }
  }
}

TEST(Pipeline, StagesWithoutWeightPartsRunEverySchedule) {
  job ranks(3, small_pieces());
  for (const pipeline_shape& shape : shapes_of(3, 5)) {
    SCOPED_TRACE(text_of(shape));
    expect_serial_results(ranks, make_schedule(shape), 10, false);
  }
}

TEST(Pipeline, RunsSchedulesOfTheCaller) {
  job ranks(2, small_pieces());
  // One micro-batch at a time, and the weights of all at the end.
  pipeline_schedule all{pipeline_placement::v, 2, 3, {{}, {}}};
  for (pipeline_steps& steps : all.ranks) {
    for (int m = 0; m < 3; ++m) {
      steps.push_back({pipeline_step::forward, m, 0});
      steps.push_back({pipeline_step::forward, m, 1});
      steps.push_back({pipeline_step::backward_input, m, 1});
      steps.push_back({pipeline_step::backward, m, 0});
    }
    for (int m = 0; m < 3; ++m) steps.push_back({pipeline_step::backward_weights, m, 1});
  }
  expect_serial_results(ranks, all, 100, true);
}

pipeline_schedule one_f_one_b(int ranks, int micro_batches) {
  return make_schedule({.ranks = ranks, .micro_batches = micro_batches});
}

asio::awaitable<void> many_steps(communicator& stages, std::vector<integer_stage*> work) {
  for (integer_stage* one : work) {
    co_await run_pipeline(stages, pipeline_kind::one_f_one_b, 5, *one);
  }
}

TEST(Pipeline, StepsNeedNoBarrierBetween) {
  constexpr int steps = 10;
  job ranks(3, small_pieces());
  std::vector<stage_list> all;
  std::vector<std::vector<integer_stage*>> of_rank(3);
  for (int i = 0; i < steps; ++i) {
    all.push_back(make_stages(one_f_one_b(3, 5), 10 + static_cast<std::size_t>(i)));
    for (std::size_t r = 0; r < 3; ++r) of_rank[r].push_back(all.back()[r].get());
  }
  ASSERT_EQ(ranks.run([&](int r) {
    return many_steps(ranks.world(r), of_rank[static_cast<std::size_t>(r)]);
  }),
            "");
  for (int i = 0; i < steps; ++i) {
    const stage_list& step = all[static_cast<std::size_t>(i)];
    EXPECT_EQ(step[0]->gradients[4], serial(3, 4, 10 + static_cast<std::size_t>(i)).gradient);
  }
}

/// Computes on other threads, like a trainer.
class threaded_stage final : public integer_stage {
 public:
  threaded_stage(asio::thread_pool& pool, int rank, const pipeline_schedule& all)
      : integer_stage(rank, all, 300), pool_(pool) {}

 private:
  asio::awaitable<void> compute() override {
    asio::thread_pool& pool = pool_;
    co_await asio::co_spawn(pool, idle(), asio::use_awaitable);
  }
  static asio::awaitable<void> idle() { co_return; }
  asio::thread_pool& pool_;
};

TEST(Pipeline, TransfersOverlapWithComputation) {
  job ranks(3, small_pieces());
  // Joined before the event loop ends: its threads hold work of that loop until they have posted.
  asio::thread_pool pool(2);
  std::vector<std::unique_ptr<threaded_stage>> all;
  const pipeline_schedule schedule = one_f_one_b(3, 20);
  for (int r = 0; r < 3; ++r) all.push_back(std::make_unique<threaded_stage>(pool, r, schedule));
  ASSERT_EQ(ranks.run([&](int r) {
    return run_pipeline(ranks.world(r), pipeline_kind::one_f_one_b, 20,
                        *all[static_cast<std::size_t>(r)]);
  }),
            "");
  for (int m = 0; m < 20; ++m) {
    EXPECT_EQ(all[0]->gradients[static_cast<std::size_t>(m)], serial(3, m, 300).gradient);
  }
}

/// Each call takes several iterations of the event loop.
class slow_stage final : public integer_stage {
 public:
  using integer_stage::integer_stage;

 private:
  asio::awaitable<void> compute() override {
    for (int turn = 0; turn < 10; ++turn) co_await asio::post(asio::use_awaitable);
  }
};

class trace final : public pipeline_observer {
 public:
  void record(const entry& done) override { entries.push_back(done); }
  std::vector<entry> entries;
};

/// The computations of a trace.
pipeline_steps computed_in(const trace& of) {
  pipeline_steps steps;
  for (const pipeline_observer::entry& one : of.entries) {
    const auto add = [&](pipeline_step::kind what) {
      steps.push_back({what, one.micro_batch, one.chunk});
    };
    if (one.what == pipeline_activity::forward) add(pipeline_step::forward);
    if (one.what == pipeline_activity::backward) add(pipeline_step::backward);
    if (one.what == pipeline_activity::backward_input) add(pipeline_step::backward_input);
    if (one.what == pipeline_activity::backward_weights) add(pipeline_step::backward_weights);
  }
  return steps;
}

TEST(Pipeline, ReportsTimeByActivity) {
  for (const pipeline_shape& shape : shapes_of(2, 4)) {
    SCOPED_TRACE(text_of(shape));
    const pipeline_schedule schedule = make_schedule(shape);
    job ranks(2, small_pieces());
    stage_list all = make_stages(schedule, 1000);
    all[0] = std::make_unique<slow_stage>(0, schedule, 1000);
    trace traces[2];
    ASSERT_EQ(ranks.run([&](int r) {
      return run_pipeline(ranks.world(r), schedule, *all[static_cast<std::size_t>(r)], &traces[r]);
    }),
              "");
    for (std::size_t r = 0; r < 2; ++r) {
      const std::vector<pipeline_observer::entry>& entries = traces[r].entries;
      for (std::size_t i = 0; i < entries.size(); ++i) {
        EXPECT_LE(entries[i].begin, entries[i].end);
        EXPECT_LE(i > 0 ? entries[i - 1].end : entries[i].begin, entries[i].begin);
      }
      EXPECT_EQ(computed_in(traces[r]), schedule.ranks[r]);
    }
    const pipeline_observer::entry& first = traces[1].entries.front();
    EXPECT_EQ(first.what, pipeline_activity::recv);
    EXPECT_EQ(first.micro_batch, 0);
    EXPECT_EQ(first.chunk, 0);
  }
}

}  // namespace
}  // namespace tandem
