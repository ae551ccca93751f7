// Failures in calls of islands: arguments, the library, a lost rank.
#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tandem/collectives.hpp>

#include "collectives/islands/rig.hpp"

namespace tandem {
namespace {

using test::island_call;
using test::island_rig;

asio::awaitable<void> until(asio::cancellation_signal& stop, asio::awaitable<void> call) {
  const asio::any_io_executor here = co_await asio::this_coro::executor;
  auto token = asio::bind_cancellation_slot(stop.slot(), asio::use_awaitable);
  co_await asio::co_spawn(here, std::move(call), token);
}

struct IslandFailure : testing::Test {
  /// The other ranks are not affected.
  void expect_harmless() {
    const island_call c(collective::reduce_scatter, 37, data_type::float32);
    EXPECT_EQ(rig.check(c), "");
  }
  std::string why(int rank) const { return rig.jobs->text(rank); }

  island_rig rig{{0, 0, 1, 0}};
  buffer first{1024, memory_kind::cuda, 1}, second{1024, memory_kind::cuda, 1};
  const mutable_view one = first.view(), two = second.view();
};

TEST_F(IslandFailure, ArgumentsAreValidatedLikeTheCommunicator) {
  communicator& in = rig.of(1);
  communicator& own = rig.jobs->world(1);
  constexpr data_type type = data_type::float32;
  constexpr reduce_op sum = reduce_op::sum;
  const auto refused = [this](asio::awaitable<void> ours, asio::awaitable<void> communicators) {
    EXPECT_EQ(rig.code_of(1, std::move(ours)), errc::bad_input);
    const std::string reason = why(1);
    EXPECT_EQ(rig.code_of(1, std::move(communicators)), errc::bad_input);
    EXPECT_EQ(reason, why(1));
  };
  refused(broadcast(in, one, 4), broadcast(own, one, 4));
  refused(reduce(in, one, two, type, sum, -1), reduce(own, one, two, type, sum, -1));
  refused(reduce(in, one, two.part(0, 512), type, sum, 1),
          reduce(own, one, two.part(0, 512), type, sum, 1));
  refused(reduce(in, one.part(0, 510), two, type, sum, 0),
          reduce(own, one.part(0, 510), two, type, sum, 0));
  refused(reduce_scatter(in, one, two, type, sum), reduce_scatter(own, one, two, type, sum));
  refused(reduce_scatter(in, one, one.part(128, 256), type, sum),
          reduce_scatter(own, one, one.part(128, 256), type, sum));
  refused(reduce_scatter(in, one, two.part(1, 256), type, sum),
          reduce_scatter(own, one, two.part(1, 256), type, sum));
  refused(reduce_scatter(in, one, two.part(0, 256), data_type::int8, premultiplied_sum(0.5)),
          reduce_scatter(own, one, two.part(0, 256), data_type::int8, premultiplied_sum(0.5)));
  refused(all_gather(in, one, two), all_gather(own, one, two));
  refused(all_to_all(in, one, one), all_to_all(own, one, one));
  refused(all_to_all(in, one, two.part(0, 512)), all_to_all(own, one, two.part(0, 512)));
  refused(all_to_all(in, one.part(0, 1022), two.part(0, 1022)),
          all_to_all(own, one.part(0, 1022), two.part(0, 1022)));
  refused(all_reduce(in, one.part(2, 512), type, sum),
          all_reduce(own, one.part(2, 512), type, sum));
  expect_harmless();
}

TEST_F(IslandFailure, MemoryOfAnotherDeviceIsRefused) {
  communicator& in = rig.of(1);
  std::vector<std::byte> host_bytes(1024);
  const buffer other(1024, memory_kind::cuda, 0);
  const mutable_view elsewhere = other.view(), host(host_bytes);
  constexpr data_type type = data_type::int8;
  constexpr reduce_op sum = reduce_op::sum;
  constexpr errc refused = errc::unsupported_memory;
  EXPECT_EQ(rig.code_of(1, broadcast(in, elsewhere, 0)), refused) << why(1);
  EXPECT_NE(why(1).find("cuda:1"), std::string::npos) << why(1);
  EXPECT_EQ(rig.code_of(1, all_reduce(in, elsewhere, type, sum)), refused);
  EXPECT_EQ(rig.code_of(1, reduce(in, elsewhere, two, type, sum, 0)), refused);
  for (const mutable_view& wrong : {elsewhere, host}) {
    EXPECT_EQ(rig.code_of(1, all_gather(in, one.part(0, 256), wrong)), refused);
    EXPECT_EQ(rig.code_of(1, all_to_all(in, one, wrong)), refused);
    EXPECT_EQ(rig.code_of(1, all_reduce(in, wrong, two, type, sum)), refused);
    EXPECT_EQ(rig.code_of(1, reduce(in, wrong, two, type, sum, 1)), refused);
    EXPECT_EQ(rig.code_of(1, reduce_scatter(in, wrong, two.part(0, 256), type, sum)), refused);
  }
  expect_harmless();
}

/// One rank passes host memory: its call uses channels, which the other ranks do not.
class IslandMismatch : public testing::TestWithParam<std::vector<int>> {};

TEST_P(IslandMismatch, OfMemoryFailsOnEveryRank) {
  island_rig rig{GetParam()};
  const island_call c(collective::all_reduce, 37, data_type::float32);
  const auto call = [&](int r) {
    return test::check(rig.of(r), r == 1 ? nullptr : &rig.device(r), c);
  };
  ASSERT_NE(rig.jobs->run(call), "hangs");
  for (int r = 0; r < rig.size(); ++r) {
    EXPECT_EQ(rig.jobs->code(r), errc::call_mismatch) << rig.jobs->text(r);
    EXPECT_NE(rig.jobs->text(r).find("(islands, float32, sum)"), std::string::npos)
        << rig.jobs->text(r);
  }
}

INSTANTIATE_TEST_SUITE_P(, IslandMismatch,
                         testing::Values(std::vector{0, 0, 0}, std::vector{0, 1},
                                         std::vector{0, 0, 1, 0}),
                         [](const testing::TestParamInfo<std::vector<int>>& of) {
                           return "Ranks" + std::to_string(of.param.size());
                         });

/// One rank's library refuses a call: all ranks get its rank and error text in that call or, where
/// their part was already complete, as rank 2's may be, in the next one.
class IslandLibraryFailure : public testing::TestWithParam<std::pair<const char*, collective>> {};

TEST_P(IslandLibraryFailure, ReachesEveryRank) {
  const auto& [function, what] = GetParam();
  island_rig rig({0, 0, 1, 0});
  rig.library.fail(function, 2, detail::nc::system_error);
  const island_call c(what, 37, data_type::float32);
  rig.check(c);
  for (const int r : {0, 1, 3}) EXPECT_EQ(rig.jobs->code(r), errc::device_failed) << r;
  rig.check(c);
  for (int r = 0; r < rig.size(); ++r) {
    EXPECT_EQ(rig.jobs->code(r), errc::device_failed) << rig.jobs->text(r);
    EXPECT_NE(rig.jobs->text(r).find(function), std::string::npos) << rig.jobs->text(r);
    EXPECT_NE(rig.jobs->text(r).find("unhandled system error"), std::string::npos);
    EXPECT_EQ(rig.jobs->why(r).detail, rig.jobs->why(0).detail);
  }
}

INSTANTIATE_TEST_SUITE_P(, IslandLibraryFailure,
                         testing::Values(std::pair("ncclReduce", collective::all_reduce),
                                         std::pair("ncclBroadcast", collective::all_reduce),
                                         std::pair("ncclReduce", collective::reduce),
                                         std::pair("ncclReduce", collective::reduce_scatter),
                                         std::pair("ncclSend", collective::reduce_scatter),
                                         std::pair("ncclBroadcast", collective::all_gather),
                                         std::pair("ncclRecv", collective::all_gather),
                                         std::pair("ncclSend", collective::all_to_all)),
                         [](const testing::TestParamInfo<std::pair<const char*, collective>>& of) {
                           return std::string(of.param.first) + "In" +
                                  std::string(name(of.param.second));
                         });

/// Rank 2 is cancelled after each number of steps of a call that rank 1 does not make.
TEST(IslandCancellation, AtEveryStepFailsOtherRanks) {
  const island_call c(collective::reduce_scatter, 37, data_type::float32);
  constexpr std::chrono::milliseconds idle{20};
  for (int steps = 0; steps < 16; ++steps) {
    SCOPED_TRACE("steps: " + std::to_string(steps));
    island_rig rig({0, 0, 1, 0});
    test::device_job& jobs = *rig.jobs;
    asio::cancellation_signal stop;
    jobs.start([&](int r) {
      if (r == 1) return test::nothing();
      asio::awaitable<void> call = test::check(rig.of(r), &rig.device(r), c);
      return r == 2 ? until(stop, std::move(call)) : std::move(call);
    });
    jobs.context.restart();
    // Before the slot has a handler, the signal would reach nobody.
    while (!stop.slot().has_handler())
      ASSERT_EQ(jobs.context.run_one_for(std::chrono::seconds(30)), 1U);
    for (int i = 0; i < steps && jobs.context.run_one_for(idle) == 1; ++i) {
    }
    ASSERT_GE(jobs.running, 3);
    stop.emit(asio::cancellation_type::terminal);
    ASSERT_TRUE(jobs.finish());
    EXPECT_EQ(jobs.code(2), asio::error::operation_aborted) << jobs.text(2);
    for (const int r : {0, 3}) {
      EXPECT_EQ(jobs.code(r), errc::message_cancelled) << jobs.text(r);
      EXPECT_NE(jobs.text(r).find("rank 2"), std::string::npos) << jobs.text(r);
    }
  }
}

TEST_F(IslandFailure, LostRankEndsRanksWaitingInTheLibrary) {
  const island_call c(collective::reduce_scatter, 37, data_type::float32);
  rig.jobs->start(
      [&](int r) { return r == 1 ? test::nothing() : test::check(rig.of(r), &rig.device(r), c); });
  ASSERT_TRUE(rig.jobs->finish(3));
  rig.jobs->context.restart();
  rig.jobs->context.run_for(std::chrono::milliseconds(20));
  EXPECT_EQ(rig.jobs->running, 3);
  rig.parts[1].reset();
  rig.jobs->worlds[1].reset();
  rig.jobs->fabrics[1].reset();
  ASSERT_TRUE(rig.jobs->finish());
  for (const int r : {0, 2, 3}) EXPECT_EQ(rig.jobs->code(r), errc::peer_lost) << why(r);
}

}  // namespace
}  // namespace tandem
