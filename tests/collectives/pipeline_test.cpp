#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <tandem/collectives/pipeline.hpp>
#include <tandem/deadline.hpp>

#include "collectives/job.hpp"

namespace tandem {
namespace {

using test::job;
using numbers = std::vector<std::int64_t>;

constexpr pipeline_kind both_kinds[] = {pipeline_kind::gpipe, pipeline_kind::one_f_one_b};

/// A stage of exact arithmetic: forward maps x to 3 x + stage, backward maps g to 2 g + x, x being
/// the input that it stashed. The first stage makes its inputs, the last its gradients.
class integer_stage : public pipeline_stage {
 public:
  integer_stage(int stage, int stages, int micro_batches, std::size_t length)
      : stage_(stage),
        is_first_(stage == 0),
        is_last_(stage + 1 == stages),
        length_(length),
        stash_(static_cast<std::size_t>(micro_batches)) {}

  static numbers source(int micro_batch, std::size_t length) {
    numbers x(length);
    for (std::size_t i = 0; i < length; ++i) {
      x[i] = 1000 * micro_batch + static_cast<std::int64_t>(i);
    }
    return x;
  }

  std::size_t input_bytes() const override { return length_ * sizeof(std::int64_t); }
  std::size_t output_bytes() const override { return length_ * sizeof(std::int64_t); }

  asio::awaitable<void> forward(int micro_batch, const_view in, mutable_view out) override {
    co_await compute();
    EXPECT_EQ(in.bytes, is_first_ ? 0 : input_bytes());
    EXPECT_EQ(out.bytes, is_last_ ? 0 : output_bytes());
    numbers& x = stash_[static_cast<std::size_t>(micro_batch)];
    x = source(micro_batch, length_);
    if (!is_first_) std::memcpy(x.data(), in.data, in.bytes);
    numbers y(length_);
    for (std::size_t i = 0; i < length_; ++i) y[i] = 3 * x[i] + stage_;
    if (is_last_) {
      results.push_back(y);
    } else {
      std::memcpy(out.data, y.data(), out.bytes);
    }
    ++held;
    peak = std::max(peak, held);
    done.push_back({pipeline_step::forward, micro_batch});
  }

  asio::awaitable<void> backward(int micro_batch, const_view grad_out,
                                 mutable_view grad_in) override {
    co_await compute();
    EXPECT_EQ(grad_out.bytes, is_last_ ? 0 : output_bytes());
    EXPECT_EQ(grad_in.bytes, is_first_ ? 0 : input_bytes());
    const numbers& x = stash_[static_cast<std::size_t>(micro_batch)];
    numbers g(length_, 1);
    if (!is_last_) std::memcpy(g.data(), grad_out.data, grad_out.bytes);
    for (std::size_t i = 0; i < length_; ++i) g[i] = 2 * g[i] + x[i];
    if (is_first_) {
      results.push_back(g);
    } else {
      std::memcpy(grad_in.data, g.data(), grad_in.bytes);
    }
    --held;
    done.push_back({pipeline_step::backward, micro_batch});
  }

  std::vector<numbers> results;  ///< of the last stage forward, and of the first backward
  pipeline_schedule done;
  int held = 0;
  int peak = 0;

 protected:
  virtual asio::awaitable<void> compute() { co_return; }

 private:
  int stage_;
  bool is_first_, is_last_;
  std::size_t length_;
  std::vector<numbers> stash_;
};

struct expected {
  numbers outcome, gradient;
};

/// The same in one place.
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

using stage_list = std::vector<std::unique_ptr<integer_stage>>;

stage_list make_stages(int stages, int micro_batches, std::size_t length) {
  stage_list all;
  for (int s = 0; s < stages; ++s) {
    all.push_back(std::make_unique<integer_stage>(s, stages, micro_batches, length));
  }
  return all;
}

/// Lengths on both sides of what may leave unasked.
settings small_pieces() {
  settings s;
  s.eager_bytes = 512;
  return s;
}

TEST(Pipeline, ComputesWhatOneProcessWould) {
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

TEST(Pipeline, StepsFollowEachOtherWithoutABarrier) {
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

/// Computes on other threads, as a trainer does.
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

TEST(Pipeline, TransfersGoOnWhileOtherThreadsCompute) {
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

/// Takes some turns of the loop over each call.
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

class diary final : public pipeline_observer {
 public:
  void record(pipeline_activity what, int micro_batch, time_point begin, time_point end) override {
    pieces.push_back({what, micro_batch, begin, end});
  }
  std::vector<piece> pieces;
};

TEST(Pipeline, TellsWhereTimeWent) {
  job ranks(2, small_pieces());
  stage_list all = make_stages(2, 4, 1000);
  all[0] = std::make_unique<slow_stage>(0, 2, 4, 1000);
  diary diaries[2];
  ASSERT_EQ(ranks.run([&](int r) {
    return run_pipeline(ranks.world(r), pipeline_kind::one_f_one_b, 4,
                        *all[static_cast<std::size_t>(r)], &diaries[r]);
  }),
            "");
  for (std::size_t s = 0; s < 2; ++s) {
    pipeline_schedule computed;
    const std::vector<piece>& pieces = diaries[s].pieces;
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
  const piece& first = diaries[1].pieces.front();
  EXPECT_EQ(first.what, pipeline_activity::recv);
  EXPECT_EQ(first.micro_batch, 0);
}

/// Throws, or never ends, in one of its calls.
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

TEST(Pipeline, AStageThatThrowsEndsAll) {
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
          // Later stages need its forwards only, and earlier ones its backwards to the last.
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

TEST(Pipeline, CancellingAStuckStageEndsAll) {
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

TEST(Pipeline, NeighboursOfUnequalLengthFail) {
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

TEST(Pipeline, RefusesNonsense) {
  job ranks(1);
  integer_stage work(0, 1, 4, 10);
  const auto run = [&](int) {
    return run_pipeline(ranks.world(0), pipeline_kind::gpipe, -1, work);
  };
  ASSERT_NE(ranks.run(run), "hangs");
  EXPECT_EQ(ranks.code(0), errc::bad_input) << ranks.text(0);
}

/// Nothing may leak or be touched late wherever the program stops, be it in a stage or in a
/// transfer.
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
