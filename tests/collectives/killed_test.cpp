// A rank that is killed after any step of any algorithm.
#include <gtest/gtest.h>

#include <tandem/collectives.hpp>

#include "collectives/every_call.hpp"
#include "collectives/job.hpp"

namespace tandem {
namespace {

using test::every_call;

constexpr int ranks = 4;

/// A job in which one rank has its own io_context, which can be stopped at any step.
struct killable_job {
  explicit killable_job(int killed) : lost(killed) {
    const asio::any_io_executor here = other_context.get_executor();
    std::vector<asio::any_io_executor> executors(std::size_t{ranks}, here);
    executors[static_cast<std::size_t>(lost)] = killed_context.get_executor();
    fabrics = local::make_fabrics(executors, test::small_pieces());
    for (const auto& f : fabrics) {
      worlds.push_back(std::make_unique<communicator>(*f, test::small_pieces()));
    }
  }

  void start(std::vector<every_call>& calls, int which) {
    for (int r = 0; r < ranks; ++r) {
      const auto i = static_cast<std::size_t>(r);
      asio::io_context& loop = r == lost ? killed_context : other_context;
      asio::co_spawn(loop, calls[i].make(*worlds[i], which), [this, r](std::exception_ptr failure) {
        if (r == lost) {
          lost_rank_ended = true;
        } else {
          outcome.push_back(failure);
        }
      });
    }
  }
  /// Destroys the connections of that rank; its io_context must not run again.
  void kill() { fabrics[static_cast<std::size_t>(lost)].reset(); }
  /// False if some rank still waits after 30 s.
  bool finish() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    other_context.restart();
    while (outcome.size() + 1 < ranks && std::chrono::steady_clock::now() < deadline) {
      if (other_context.run_one_until(deadline) == 0) break;
    }
    return outcome.size() + 1 == ranks;
  }

  const int lost;
  asio::io_context other_context;
  asio::io_context killed_context;
  std::vector<std::unique_ptr<fabric>> fabrics;
  std::vector<std::unique_ptr<communicator>> worlds;
  std::vector<std::exception_ptr> outcome;
  bool lost_rank_ended = false;
};

/// The rank has completed or its error names the lost rank.
void expect_loss_of(int lost, std::exception_ptr failure) {
  if (!failure) return;
  try {
    std::rethrow_exception(failure);
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::peer_lost) << e.what();
    EXPECT_EQ(e.context().peer, lost) << e.what();
  }
}

class Killed : public testing::TestWithParam<int> {};

TEST_P(Killed, AtAnyStepOthersFailNamingTheRank) {
  for (int lost = 0; lost < ranks; ++lost) {
    bool ended = false;
    int failures = 0;
    for (int steps = 0; !ended; ++steps) {
      ASSERT_LT(steps, 10000);
      std::vector<every_call> calls(ranks);
      killable_job job(lost);
      job.start(calls, GetParam());
      for (int i = 0; i < steps; ++i) {
        (i % 3 == 0 ? job.killed_context : job.other_context).poll_one();
      }
      ended = job.lost_rank_ended && job.outcome.size() + 1 == ranks;
      job.kill();
      ASSERT_TRUE(job.finish()) << "hangs: rank " << lost << " killed after step " << steps;
      for (const std::exception_ptr& one : job.outcome) {
        expect_loss_of(lost, one);
        failures += one ? 1 : 0;
      }
    }
    if (!every_call::waits_for(GetParam(), lost, ranks)) continue;
    EXPECT_GT(failures, 0) << "rank " << lost;
  }
}

std::string name_of(const testing::TestParamInfo<int>& info) {
  return every_call::test_name(info.param);
}

INSTANTIATE_TEST_SUITE_P(In, Killed, testing::Range(0, every_call::count()), name_of);

}  // namespace
}  // namespace tandem
