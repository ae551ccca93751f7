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

using test::both_kinds;
using test::integer_stage;
using test::job;
using test::make_stages;
using test::numbers;
using test::small_pieces;
using test::stage_list;

struct expected {
  numbers outcome, gradient;
};

/// The same computation in one process.
expected serial(int stages, int micro_batch, std::size_t length) {
  expected e{integer_stage::source(micro_batch, length), numbers(length, 1)};
  std::vector<numbers> inputs;
  for (int s = 0; s < stages; ++s) {
    inputs.push_back(e.outcome);
    for (std::int64_t& x : e.outcome) x = 3 * x + s;
  }
  for (int s = stages; s-- > 0;) {
    for (std::size_t i = 0; i < length; ++i) {
      e.gradient[i] = 2 * e.gradient[i] + inputs[static_cast<std::size_t>(s)][i];
    }
  }
  return e;
}

TEST(Pipeline, MatchesSingleProcess) {
  for (const pipeline_kind kind : both_kinds) {
    for (int stages = 1; stages <= 4; ++stages) {
      job ranks(stages, small_pieces());
      for (const int micro_batches : {0, 1, 2, 3, 8}) {
        for (const std::size_t length : {std::size_t{1}, std::size_t{1000}}) {
          SCOPED_TRACE(testing::Message() << name(kind) << ", " << stages << " stages, "
                                          << micro_batches << " x " << length);
          stage_list all = make_stages(stages, micro_batches, length);
          ASSERT_EQ(ranks.run([&](int r) {
            return run_pipeline(ranks.world(r), kind, micro_batches,
                                *all[static_cast<std::size_t>(r)]);
          }),
                    "");
          std::vector<numbers> outcomes = all.back()->results;
          std::vector<numbers> gradients = all.front()->results;
          if (stages == 1) {  // both in one list, in the order of the schedule
            outcomes.clear();
            gradients.clear();
            for (std::size_t i = 0; i < all[0]->results.size(); ++i) {
              const bool is_forward = all[0]->done[i].what == pipeline_step::forward;
              (is_forward ? outcomes : gradients).push_back(all[0]->results[i]);
            }
          }
          ASSERT_EQ(outcomes.size(), static_cast<std::size_t>(micro_batches));
          ASSERT_EQ(gradients.size(), outcomes.size());
          for (int m = 0; m < micro_batches; ++m) {
            const expected e = serial(stages, m, length);
            EXPECT_EQ(outcomes[static_cast<std::size_t>(m)], e.outcome);
            EXPECT_EQ(gradients[static_cast<std::size_t>(m)], e.gradient);
          }
          for (int s = 0; s < stages; ++s) {
            const integer_stage& one = *all[static_cast<std::size_t>(s)];
            EXPECT_EQ(one.done, make_schedule(kind, s, stages, micro_batches));
            EXPECT_EQ(one.held, 0);
            EXPECT_EQ(one.peak, kind == pipeline_kind::gpipe ? micro_batches
                                                             : std::min(stages - s, micro_batches));
          }
        }
      }
    }
  }
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
    all.push_back(make_stages(3, 5, 10 + static_cast<std::size_t>(i)));
    for (std::size_t r = 0; r < 3; ++r) of_rank[r].push_back(all.back()[r].get());
  }
  ASSERT_EQ(ranks.run([&](int r) {
    return many_steps(ranks.world(r), of_rank[static_cast<std::size_t>(r)]);
  }),
            "");
  for (int i = 0; i < steps; ++i) {
    const stage_list& step = all[static_cast<std::size_t>(i)];
    EXPECT_EQ(step[0]->results[4], serial(3, 4, 10 + static_cast<std::size_t>(i)).gradient);
  }
}

/// Computes on other threads, like a trainer.
class threaded_stage final : public integer_stage {
 public:
  threaded_stage(asio::thread_pool& pool, int stage, int stages, int micro_batches)
      : integer_stage(stage, stages, micro_batches, 300), pool_(pool) {}

 private:
  asio::awaitable<void> compute() override {
    asio::thread_pool& pool = pool_;
    co_await asio::co_spawn(pool, idle(), asio::use_awaitable);
  }
  static asio::awaitable<void> idle() { co_return; }
  asio::thread_pool& pool_;
};

TEST(Pipeline, TransfersOverlapWithComputation) {
  asio::thread_pool pool(2);
  job ranks(3, small_pieces());
  std::vector<std::unique_ptr<threaded_stage>> all;
  for (int s = 0; s < 3; ++s) all.push_back(std::make_unique<threaded_stage>(pool, s, 3, 20));
  ASSERT_EQ(ranks.run([&](int r) {
    return run_pipeline(ranks.world(r), pipeline_kind::one_f_one_b, 20,
                        *all[static_cast<std::size_t>(r)]);
  }),
            "");
  for (int m = 0; m < 20; ++m) {
    EXPECT_EQ(all[0]->results[static_cast<std::size_t>(m)], serial(3, m, 300).gradient);
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

struct piece {
  pipeline_activity what;
  int micro_batch;
  pipeline_observer::time_point begin, end;
};

class trace final : public pipeline_observer {
 public:
  void record(pipeline_activity what, int micro_batch, time_point begin, time_point end) override {
    pieces.push_back({what, micro_batch, begin, end});
  }
  std::vector<piece> pieces;
};

TEST(Pipeline, ReportsTimeByPhase) {
  job ranks(2, small_pieces());
  stage_list all = make_stages(2, 4, 1000);
  all[0] = std::make_unique<slow_stage>(0, 2, 4, 1000);
  trace traces[2];
  ASSERT_EQ(ranks.run([&](int r) {
    return run_pipeline(ranks.world(r), pipeline_kind::one_f_one_b, 4,
                        *all[static_cast<std::size_t>(r)], &traces[r]);
  }),
            "");
  for (std::size_t s = 0; s < 2; ++s) {
    pipeline_schedule computed;
    const std::vector<piece>& pieces = traces[s].pieces;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      EXPECT_LE(pieces[i].begin, pieces[i].end);
      EXPECT_LE(i > 0 ? pieces[i - 1].end : pieces[i].begin, pieces[i].begin);
      if (pieces[i].what == pipeline_activity::forward) {
        computed.push_back({pipeline_step::forward, pieces[i].micro_batch});
      } else if (pieces[i].what == pipeline_activity::backward) {
        computed.push_back({pipeline_step::backward, pieces[i].micro_batch});
      }
    }
    EXPECT_EQ(computed, all[s]->done);
  }
  const piece& first = traces[1].pieces.front();
  EXPECT_EQ(first.what, pipeline_activity::recv);
  EXPECT_EQ(first.micro_batch, 0);
}

}  // namespace
}  // namespace tandem
