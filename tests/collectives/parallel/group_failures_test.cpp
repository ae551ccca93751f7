// Failures of parallel groups: different layouts, missing devices, the library.
#include <gtest/gtest.h>

#include <tandem/collectives.hpp>

#include "collectives/parallel/rig.hpp"

namespace tandem {
namespace {

using test::group_rig;
using test::island_call;

struct ParallelFailure : testing::Test {
  /// The communicator still works, and groups can be made.
  void expect_harmless() {
    EXPECT_EQ(rig.make("pipeline=2,tensor=2"), "");
    const island_call sum(collective::all_reduce, 37, data_type::float32);
    for (const char* const name : {"pipeline", "tensor"}) EXPECT_EQ(rig.check(name, sum), "");
  }
  bool shows(int rank, const std::string& words) const {
    return rig.jobs->text(rank).find(words) != std::string::npos;
  }
  group_rig rig{{test::on_cuda(2), test::on_cuda(2, 1)}};
};

TEST_F(ParallelFailure, DifferentLayoutIsMismatchOnAllRanks) {
  ASSERT_NE(rig.jobs->run([this](int r) {
    return rig.make_one(r, r == 2 ? "pipeline=4" : "pipeline=2,tensor=2");
  }),
            "hangs");
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(rig.jobs->code(r), errc::call_mismatch) << rig.jobs->text(r);
    EXPECT_TRUE(
        shows(r, R"("layout pipeline=2,tensor=2" on ranks 0, 1, 3; "layout pipeline=4" on rank 2)"))
        << rig.jobs->text(r);
  }
  expect_harmless();
}

TEST_F(ParallelFailure, LayoutOfWrongSizeIsRefusedOnAllRanks) {
  ASSERT_NE(rig.make("pipeline=2,tensor=3"), "hangs");
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(rig.jobs->code(r), errc::bad_option);
    EXPECT_TRUE(shows(r, "6 ranks, and the job has 4")) << rig.jobs->text(r);
  }
  expect_harmless();
}

TEST_F(ParallelFailure, MissingDeviceIsReportedOnAllRanks) {
  const island_member right = rig.member(1);
  rig.member(1).device = 17;
  ASSERT_NE(rig.make("pipeline=2,tensor=2"), "hangs");
  EXPECT_EQ(rig.jobs->code(1), errc::unsupported_memory) << rig.jobs->text(1);
  for (const int r : {0, 2, 3}) {
    EXPECT_EQ(rig.jobs->code(r), errc::call_mismatch);
    EXPECT_TRUE(shows(r, "on rank 1")) << rig.jobs->text(r);
    EXPECT_TRUE(shows(r, "no device 17 of kind cuda")) << rig.jobs->text(r);
  }
  rig.member(1) = right;
  expect_harmless();
}

TEST_F(ParallelFailure, WrongArgumentsChangeNothing) {
  ASSERT_EQ(rig.make("pipeline=2,tensor=2"), "");
  const buffer memory(1024, memory_kind::cuda, 0), other(1024, memory_kind::cuda, 1);
  const mutable_view data = memory.view(), elsewhere = other.view();
  const auto code_of = [this](asio::awaitable<void> call) {
    std::vector<asio::awaitable<void>> one;
    one.push_back(std::move(call));
    rig.jobs->start([&one](int r) { return r == 0 ? std::move(one[0]) : test::nothing(); });
    EXPECT_TRUE(rig.jobs->finish());
    return rig.jobs->code(0);
  };
  communicator& tensor = rig.of(0).group("tensor");
  communicator& pipeline = rig.of(0).group("pipeline");
  constexpr data_type type = data_type::float32;
  EXPECT_EQ(code_of(all_reduce(tensor, elsewhere, type, reduce_op::sum)), errc::unsupported_memory);
  EXPECT_EQ(code_of(all_reduce(tensor, data.part(0, 6), type, reduce_op::sum)), errc::bad_input);
  EXPECT_EQ(code_of(all_reduce(pipeline, data.part(0, 6), type, reduce_op::sum)), errc::bad_input);
  for (communicator* const each : {&tensor, &pipeline}) {
    EXPECT_EQ(code_of(broadcast(*each, data, 2)), errc::bad_input);
    EXPECT_EQ(code_of(reduce(*each, data, data, type, reduce_op::sum, -1)), errc::bad_input);
    EXPECT_EQ(code_of(all_gather(*each, data, data)), errc::bad_input);
    EXPECT_EQ(code_of(all_to_all(*each, data, data)), errc::bad_input);
    EXPECT_EQ(code_of(weighted_mean(*each, data, type, -1)), errc::bad_input);
    EXPECT_EQ(code_of(weighted_mean(*each, data, data_type::int32, 1)), errc::bad_input);
  }
  try {
    (void)rig.of(0).group("tensr");
    ADD_FAILURE() << "there is no such group";
  } catch (const error& why) {
    EXPECT_EQ(why.code(), errc::bad_input);
    EXPECT_NE(std::string(why.what()).find("did you mean tensor?"), std::string::npos)
        << why.what();
  }
  const island_call sum(collective::all_reduce, 37, data_type::float32);
  for (const char* const name : {"pipeline", "tensor"}) EXPECT_EQ(rig.check(name, sum), "");
}

TEST_F(ParallelFailure, LibraryCallFailureReachesEveryRank) {
  ASSERT_EQ(rig.make("pipeline=2,tensor=2"), "");
  rig.library.fail("ncclAllReduce", 1, detail::nc::system_error);
  const island_call sum(collective::all_reduce, 37, data_type::float32);
  ASSERT_NE(rig.check("tensor", sum), "hangs");
  ASSERT_NE(rig.check("pipeline", sum), "hangs");
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(rig.jobs->code(r), errc::device_failed) << rig.jobs->text(r);
    EXPECT_TRUE(shows(r, "ncclAllReduce")) << rig.jobs->text(r);
    EXPECT_EQ(rig.jobs->why(r).detail, rig.jobs->why(0).detail);
  }
}

/// One rank's library fails to initialize: the ranks that wait for it there get the error.
TEST_F(ParallelFailure, LibraryInitFailureReachesEveryRank) {
  rig.library.fail("ncclCommInitRank", 1, detail::nc::system_error);
  ASSERT_NE(rig.make("pipeline=2,tensor=2"), "hangs");
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(rig.jobs->code(r), errc::device_failed) << rig.jobs->text(r);
    EXPECT_TRUE(shows(r, "ncclCommInitRank")) << rig.jobs->text(r);
    EXPECT_TRUE(shows(r, "unhandled system error")) << rig.jobs->text(r);
  }
}

/// The library waits for a peer that its own sockets do not reach.
TEST(ParallelStart, LibraryThatDoesNotStartIsGivenUp) {
  settings options = test::small_pieces();
  options.operation_timeout = std::chrono::seconds(3);
  group_rig rig({test::on_cuda(2)}, options);
  rig.library.hang_initializations();
  ASSERT_NE(rig.make("tensor=2"), "hangs");
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(rig.jobs->code(r), errc::timed_out) << rig.jobs->text(r);
    EXPECT_NE(rig.jobs->text(r).find("no answer within 3 s"), std::string::npos)
        << rig.jobs->text(r);
  }
}

}  // namespace
}  // namespace tandem
