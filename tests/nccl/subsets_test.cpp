// Communicators of some ranks of another, also of one that has failed.
#include <latch>
#include <utility>

#include "nccl/rank_threads.hpp"
#include "support/expected_log.hpp"

namespace tandem::test {
namespace {

class NcclSubsets : public testing::TestWithParam<islands> {};
INSTANTIATE_TEST_SUITE_P(Islands, NcclSubsets,
                         testing::Values(islands::one, islands::of_one_rank,
                                         islands::of_one_rank_staged,
                                         islands::of_one_rank_by_kernels,
                                         islands::of_one_rank_relayed),
                         name_of_islands);

TEST_P(NcclSubsets, SplitAndShrink) {
  nccl_ranks ranks(4, GetParam());
  ranks.run([](nccl_rank& me) {
    // Even ranks in the opposite order; rank 3 takes no part.
    const int color = me.rank == 3 ? -1 : me.rank % 2;
    nccl_abi::comm part = nullptr;
    NCCL_OK(ncclCommSplit(me.comm, color, -me.rank, &part, nullptr));
    ASSERT_EQ(part == nullptr, color < 0);
    if (part != nullptr) {
      int count = 0, rank = -1;
      NCCL_OK(ncclCommCount(part, &count));
      NCCL_OK(ncclCommUserRank(part, &rank));
      EXPECT_EQ(count, color == 0 ? 2 : 1);
      EXPECT_EQ(rank, me.rank == 0 ? 1 : 0);
      device_numbers data(me, filled(3, own(me)));
      NCCL_OK(ncclAllReduce(at(data), at(data), 3, nccl_abi::float32, nccl_abi::sum, part,
                            me.stream.get()));
      EXPECT_EQ(data.get(), filled(3, color == 0 ? 4 : 2));
      NCCL_OK(ncclCommDestroy(part));
    }
    if (me.rank == 1) return;
    int left_out[] = {1};
    nccl_abi::comm fewer = nullptr;
    NCCL_OK(ncclCommShrink(me.comm, left_out, 1, &fewer, nullptr, 0));
    ASSERT_NE(fewer, nullptr);
    device_numbers data(me, filled(3, own(me)));
    NCCL_OK(ncclAllReduce(at(data), at(data), 3, nccl_abi::float32, nccl_abi::sum, fewer,
                          me.stream.get()));
    EXPECT_EQ(data.get(), filled(3, 8));
    NCCL_OK(ncclCommDestroy(fewer));
  });
}

/// Rank 0, which serves the job, aborts; the others go on without it, and then without another one.
TEST_P(NcclSubsets, ShrinkAfterAFailure) {
  expect_log("ncclCommShrink");
  nccl_ranks ranks(4, GetParam());
  std::latch joined(4), refused(3);
  ranks.run([&](nccl_rank& me) {
    joined.arrive_and_wait();
    if (me.rank == 0) {
      NCCL_OK(ncclCommAbort(std::exchange(me.comm, nullptr)));
      return;
    }
    nccl_abi::result now = nccl_abi::success;
    while (now == nccl_abi::success) NCCL_OK(ncclCommGetAsyncError(me.comm, &now));
    int first[] = {0};
    nccl_abi::comm fewer = nullptr, none = nullptr;
    EXPECT_EQ(ncclCommShrink(me.comm, first, 1, &none, nullptr, 0), nccl_abi::invalid_usage);
    EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("NCCL_SHRINK_ABORT"), std::string::npos);
    EXPECT_EQ(ncclCommShrink(me.comm, first, 1, &none, nullptr, 2), nccl_abi::invalid_argument);
    refused.arrive_and_wait();
    NCCL_OK(ncclCommShrink(me.comm, first, 1, &fewer, nullptr, nccl_abi::shrink_abort));
    ASSERT_NE(fewer, nullptr);
    int count = 0, rank = -1;
    NCCL_OK(ncclCommCount(fewer, &count));
    NCCL_OK(ncclCommUserRank(fewer, &rank));
    EXPECT_EQ(count, 3);
    EXPECT_EQ(rank, me.rank - 1);
    device_numbers data(me, filled(3, own(me)));
    NCCL_OK(ncclAllReduce(at(data), at(data), 3, nccl_abi::float32, nccl_abi::sum, fewer,
                          me.stream.get()));
    EXPECT_EQ(data.get(), filled(3, 2 + 3 + 4));
    EXPECT_EQ(ncclCommShrink(me.comm, first, 1, &none, nullptr, nccl_abi::shrink_abort),
              nccl_abi::invalid_usage);
    EXPECT_EQ(none, nullptr);
    NCCL_OK(ncclCommAbort(std::exchange(me.comm, nullptr)));
    // The one that is left out has to do nothing, and its communicator fails.
    int second[] = {1};
    if (me.rank == 2) {
      now = nccl_abi::success;
      while (now == nccl_abi::success) NCCL_OK(ncclCommGetAsyncError(fewer, &now));
      NCCL_OK(ncclCommAbort(fewer));
      return;
    }
    nccl_abi::comm two = nullptr;
    NCCL_OK(ncclCommShrink(fewer, second, 1, &two, nullptr, nccl_abi::shrink_abort));
    ASSERT_NE(two, nullptr);
    device_numbers rest(me, filled(3, own(me)));
    NCCL_OK(ncclAllReduce(at(rest), at(rest), 3, nccl_abi::float32, nccl_abi::sum, two,
                          me.stream.get()));
    EXPECT_EQ(rest.get(), filled(3, 2 + 4));
    NCCL_OK(ncclCommAbort(fewer));
    NCCL_OK(ncclCommDestroy(two));
  });
}

}  // namespace
}  // namespace tandem::test
