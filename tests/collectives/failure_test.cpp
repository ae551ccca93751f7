#include <gtest/gtest.h>

#include <tandem/async.hpp>
#include <tandem/collectives.hpp>

#include "collectives/every_call.hpp"
#include "collectives/job.hpp"

namespace tandem {
namespace {

using calls = test::every_call;
using test::job;
using test::nothing;
using test::small_pieces;

/// Every rank except `missing` makes the call and proceeds as far as possible.
void start_without(job& ranks, std::vector<calls>& made, int which, int missing) {
  ranks.start([&](int r) {
    if (r == missing) return nothing();
    return made[static_cast<std::size_t>(r)].make(ranks.world(r), which);
  });
  ranks.context.poll();
}

/// How often the phase of a rank's error names a call.
int times_in_phase(const job& ranks, int rank, const std::string& call) {
  const std::string phase = ranks.why(rank).phase;
  int times = 0;
  for (std::size_t at = phase.find(call); at != phase.npos; at = phase.find(call, at + 1)) ++times;
  return times;
}

/// All ranks but one have to end; those that wait for it fail with `code` and name `culprit`.
void expect_failures(job& ranks, int except, errc code, int culprit) {
  int failed = 0;
  for (int r = 0; r < ranks.size(); ++r) {
    if (r == except || !ranks.code(r)) continue;  // a root that has sent all is done
    ++failed;
    EXPECT_EQ(ranks.code(r), code) << ranks.text(r);
    EXPECT_EQ(ranks.why(r).peer, culprit) << ranks.text(r);
  }
  EXPECT_GT(failed, 0);
}

TEST(CollectiveFailure, LostRankIsNamedOnOtherRanks) {
  for (int which = 0; which < calls::count(); ++which) {
    for (int lost = 0; lost < 5; ++lost) {
      SCOPED_TRACE(testing::Message() << calls::name(which) << " without rank " << lost);
      job ranks(5, small_pieces());
      std::vector<calls> made(5);
      start_without(ranks, made, which, lost);
      ranks.worlds[static_cast<std::size_t>(lost)].reset();
      ranks.fabrics[static_cast<std::size_t>(lost)].reset();
      ASSERT_TRUE(ranks.finish());
      if (!calls::waits_for(which, lost, 5)) continue;
      expect_failures(ranks, lost, errc::peer_lost, lost);
    }
  }
}

/// The phase in an error is that of the call that throws it, also after another one has failed.
TEST(CollectiveFailure, PhasesStandOnceAndAreThoseOfTheCall) {
  const std::vector<test::fabric_kind>& kinds = test::fabric_kinds();
  const auto tcp = std::find_if(kinds.begin(), kinds.end(),
                                [](const test::fabric_kind& kind) { return kind.name == "tcp"; });
  ASSERT_NE(tcp, kinds.end());
  job ranks(*tcp, 4, small_pieces());
  std::vector<std::unique_ptr<communicator>> others;
  for (const auto& each : ranks.fabrics) {
    others.push_back(std::make_unique<communicator>(*each, small_pieces(), std::vector{0, 1, 2, 3},
                                                    std::uint16_t{5}));
  }
  std::vector<double> data(4 * 4096);
  ranks.start([&](int r) {
    if (r == 1) return nothing();
    const mutable_view own = mutable_view(data).part(static_cast<std::size_t>(r) * 32768, 32768);
    asio::awaitable<void> call =
        all_reduce(ranks.world(r), own, data_type::float64, reduce_op::sum, algorithm::ring);
    if (r != 2) return call;
    return with_deadline(std::chrono::milliseconds(50), std::move(call), "a short try");
  });
  ASSERT_TRUE(ranks.finish());
  for (const int r : {0, 3}) EXPECT_EQ(times_in_phase(ranks, r, "all_reduce"), 1) << ranks.text(r);
  ranks.start(
      [&](int r) { return r == 1 ? nothing() : barrier(*others[static_cast<std::size_t>(r)]); });
  ASSERT_TRUE(ranks.finish());
  for (const int r : {0, 3}) {
    EXPECT_EQ(times_in_phase(ranks, r, "barrier"), 1) << ranks.text(r);
    EXPECT_EQ(times_in_phase(ranks, r, "all_reduce"), 0) << ranks.text(r);
  }
}

TEST(CollectiveFailure, ReportedFailureEndsAllRanks) {
  for (int which = 0; which < 3; ++which) {
    SCOPED_TRACE(calls::name(which));
    job ranks(4, small_pieces());
    std::vector<calls> made(4);
    start_without(ranks, made, which, 1);
    error_context context{
        .rank = 1, .peer = 1, .rail = {}, .phase = {}, .detail = "disk full", .advice = {}};
    ranks.fabrics[1]->fail(error(errc::bad_input, context));
    ASSERT_TRUE(ranks.finish());
    expect_failures(ranks, 1, errc::bad_input, 1);
    EXPECT_NE(ranks.text(3).find("disk full"), std::string::npos) << ranks.text(3);
  }
}

TEST(CollectiveFailure, CancellationOnOneRankFailsOthers) {
  for (int which = 0; which < 3; ++which) {
    SCOPED_TRACE(calls::name(which));
    job ranks(4, small_pieces());
    std::vector<calls> made(4);
    ranks.start([&](int r) {
      if (r == 3) return nothing();
      asio::awaitable<void> call = made[static_cast<std::size_t>(r)].make(ranks.world(r), which);
      if (r != 2) return call;
      return with_deadline(std::chrono::milliseconds(5), std::move(call), "a short try");
    });
    ASSERT_TRUE(ranks.finish());
    EXPECT_EQ(ranks.code(2), errc::timed_out) << ranks.text(2);
    for (const int r : {0, 1}) {
      EXPECT_EQ(ranks.code(r), errc::message_cancelled) << ranks.text(r);
      EXPECT_EQ(ranks.why(r).peer, 2) << ranks.text(r);
    }
    // The absent rank gets the error with its next call.
    ASSERT_NE(
        ranks.run([&](int r) { return r == 3 ? made[3].make(ranks.world(3), which) : nothing(); }),
        "hangs");
    EXPECT_EQ(ranks.code(3), errc::message_cancelled) << ranks.text(3);
  }
}

TEST(CollectiveFailure, DifferentLengthsAreMismatchOnAllRanks) {
  for (const auto how : {algorithm::ring, algorithm::recursive_doubling}) {
    for (const std::size_t wrong_count : {std::size_t{40}, std::size_t{4000}}) {
      SCOPED_TRACE(testing::Message() << name(how) << " " << wrong_count);
      job ranks(4, small_pieces());
      std::vector<std::vector<float>> data(4, std::vector<float>(200));
      data[1].resize(wrong_count);
      ASSERT_NE(ranks.run([&](int r) {
        return all_reduce(ranks.world(r), data[static_cast<std::size_t>(r)], data_type::float32,
                          reduce_op::sum, how);
      }),
                "hangs");
      for (int r = 0; r < 4; ++r) EXPECT_EQ(ranks.code(r), errc::call_mismatch) << ranks.text(r);
      EXPECT_NE(ranks.text(0).find("all_reduce, r"), std::string::npos) << ranks.text(0);
      EXPECT_NE(ranks.text(0).find("step"), std::string::npos) << ranks.text(0);
    }
  }
}

TEST(CollectiveFailure, ReachesRankWaitingForAnotherRank) {
  job ranks(3, small_pieces());
  std::vector<std::int32_t> block(4), longer(100), all(12);
  ranks.start([&](int r) {
    if (r == 1) return nothing();  // and rank 0 waits for it first
    return gather(ranks.world(r), r == 0 ? block : longer, all, 0);
  });
  ASSERT_TRUE(ranks.finish());
  EXPECT_EQ(ranks.code(0), errc::call_mismatch) << ranks.text(0);
  EXPECT_EQ(ranks.why(0).peer, 2) << ranks.text(0);
}

TEST(CollectiveFailure, EndsTheCommunicator) {
  job ranks(3, small_pieces());
  std::vector<calls> made(3);
  start_without(ranks, made, 0, 1);
  ranks.worlds[1].reset();
  ranks.fabrics[1].reset();
  ASSERT_TRUE(ranks.finish());
  const std::string first = ranks.text(0);
  ASSERT_NE(ranks.run([&](int r) { return r == 0 ? barrier(ranks.world(0)) : nothing(); }),
            "hangs");
  EXPECT_EQ(ranks.text(0), first);
}

TEST(CollectiveFailure, RefusedArgumentsChangeNothing) {
  job ranks(2, small_pieces());
  std::vector<std::int32_t> data{1, 2, 3, 4};
  const mutable_view good(data);
  const auto code_of = [&ranks](asio::awaitable<void> call) {
    std::vector<asio::awaitable<void>> one;
    one.push_back(std::move(call));
    if (ranks.run([&](int r) { return r == 0 ? std::move(one[0]) : nothing(); }) == "hangs") {
      return error_code(errc::timed_out);
    }
    return ranks.code(0);
  };
  communicator& world = ranks.world(0);
  const auto reduce = [&world](mutable_view what, data_type type, reduce_op op) {
    return all_reduce(world, what, type, op);
  };
  EXPECT_EQ(code_of(broadcast(world, good, 2)), errc::bad_input);
  EXPECT_EQ(code_of(broadcast(world, good, -1)), errc::bad_input);
  EXPECT_EQ(code_of(broadcast(world, mutable_view(nullptr, 4), 0)), errc::bad_input);
  EXPECT_EQ(code_of(gather(world, good, good, 0)), errc::bad_input);
  EXPECT_EQ(code_of(gather(world, good, good, 7)), errc::bad_input);
  EXPECT_EQ(code_of(reduce(good.part(0, 7), data_type::int32, reduce_op::sum)), errc::bad_input);
  EXPECT_EQ(code_of(reduce(good.part(1, 4), data_type::int32, reduce_op::sum)), errc::bad_input);
  EXPECT_EQ(code_of(reduce(good, static_cast<data_type>(14), reduce_op::sum)), errc::bad_input);
  EXPECT_EQ(code_of(reduce(good, data_type::int32, static_cast<reduce_op>(9))), errc::bad_input);
  EXPECT_EQ(code_of(all_reduce(world, good, data_type::int32, reduce_op::sum,
                               static_cast<algorithm>(algorithm_count))),
            errc::bad_input);
  const mutable_view on_device(data.data(), 16, memory_kind::cuda);
  EXPECT_EQ(code_of(reduce(on_device, data_type::int32, reduce_op::sum)), errc::unsupported_memory);
  EXPECT_EQ(code_of(broadcast(world, on_device, 0)), errc::unsupported_memory);
  EXPECT_EQ(code_of(world.send(0, good)), errc::bad_input);
  EXPECT_EQ(code_of(world.send(2, good)), errc::bad_input);
  EXPECT_EQ(code_of(world.send(-1, good)), errc::bad_input);

  std::vector<std::int32_t> theirs{10, 20, 30, 40};
  EXPECT_EQ(ranks.run([&](int r) {
    return all_reduce(ranks.world(r), r == 0 ? data : theirs, data_type::int32, reduce_op::sum);
  }),
            "");
  EXPECT_EQ(data, (std::vector<std::int32_t>{11, 22, 33, 44}));
}

TEST(CollectiveFailure, WrongGroupsAreRefused) {
  job ranks(3);
  const auto code_of = [&ranks](std::vector<int> members, std::uint16_t id) {
    try {
      communicator(*ranks.fabrics[0], settings(), std::move(members), id);
    } catch (const error& e) {
      return e.code();
    }
    return error_code();
  };
  EXPECT_EQ(code_of({0, 2}, 1), error_code());
  EXPECT_EQ(code_of({}, 1), errc::bad_input);
  EXPECT_EQ(code_of({1, 2}, 1), errc::bad_input);
  EXPECT_EQ(code_of({0, 0}, 1), errc::bad_input);
  EXPECT_EQ(code_of({0, 3}, 1), errc::bad_input);
  EXPECT_EQ(code_of({0, -1}, 1), errc::bad_input);
  EXPECT_EQ(code_of({0, 1}, 0), errc::bad_input);
  EXPECT_EQ(code_of({0, 1}, 4096), errc::bad_input);
}

/// Stopping the program at any step must not leak or access memory late.
TEST(CollectiveFailure, StoppingAfterAnyStepIsSafe) {
  for (int which = 0; which < calls::count(); ++which) {
    bool ended = false;
    for (int steps = 0; !ended; ++steps) {
      ASSERT_LT(steps, 10000);
      // Outlive the job: an operation may hold views until its executor is destroyed.
      std::vector<calls> made(4);
      job ranks(4, small_pieces());
      ranks.start(
          [&](int r) { return made[static_cast<std::size_t>(r)].make(ranks.world(r), which); });
      for (int i = 0; i < steps; ++i) ranks.context.poll_one();
      ended = ranks.running == 0;
    }
  }
}

}  // namespace
}  // namespace tandem
