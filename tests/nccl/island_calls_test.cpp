// Calls that the vendor's library gets inside an island.
#include <string>
#include <utility>

#include "nccl/rank_threads.hpp"
#include "support/expected_log.hpp"

namespace tandem::test {
namespace {

/// Blocks of ranks, by the library's own functions, or by messages where it has none.
void exchange_blocks(nccl_rank& me) {
  accelerator::stream const on = me.stream.get();
  for (int round = 0; round < 2; ++round) {
    device_numbers one(me, {own(me)}), gathered(me, filled(3, -1)), part(me, {-1});
    NCCL_OK(ncclGather(at(one), me.rank == 1 ? at(gathered) : nullptr, 1, nccl_abi::float32, 1,
                       me.comm, on));
    EXPECT_EQ(gathered.get(), me.rank == 1 ? (numbers{1, 2, 3}) : filled(3, -1));
    NCCL_OK(ncclScatter(me.rank == 1 ? at(gathered) : nullptr, at(part), 1, nccl_abi::float32, 1,
                        me.comm, on));
    EXPECT_EQ(part.get(), filled(1, own(me)));
    device_numbers from(me, filled(3, own(me))), all(me, filled(3, -1));
    NCCL_OK(ncclAlltoAll(at(from), at(all), 1, nccl_abi::float32, me.comm, on));
    EXPECT_EQ(all.get(), (numbers{1, 2, 3}));
  }
}

TEST(NcclIslandCalls, BlocksAreExchangedByTheLibrary) {
  nccl_ranks ranks(3, islands::one);
  ranks.run(exchange_blocks);
  for (const char* const each : {"ncclGather", "ncclScatter", "ncclAlltoAll"})
    EXPECT_EQ(ranks.library.calls(each), 6u) << each;
}

TEST(NcclIslandCalls, BlocksAreMessagesOfAnOlderLibrary) {
  nccl_ranks ranks(3, islands::one);
  ranks.library.lack_blocks();
  ranks.run(exchange_blocks);
  EXPECT_EQ(ranks.library.calls("ncclGather"), 0u);
  // Each rank's block to each rank; to the root; and from it.
  EXPECT_EQ(ranks.library.calls("ncclSend"), 2u * (9 + 3 + 3));
}

/// A communicator is known to the threads that have used it: it is looked up again once it is
/// destroyed, and another one may be made.
TEST(NcclIslandCalls, DestroyedCommunicatorsAreNotKnown) {
  expect_log("no communicator, or one that was destroyed");
  nccl_ranks ranks(2, islands::one);
  for (int round = 0; round < 3; ++round) {
    ranks.run([](nccl_rank& me) {
      device_numbers data(me, filled(4, own(me)));
      for (int call = 0; call < 3; ++call) {
        NCCL_OK(ncclAllReduce(at(data), at(data), 4, nccl_abi::float32, nccl_abi::sum, me.comm,
                              me.stream.get()));
      }
      EXPECT_EQ(data.get(), filled(4, 12));
      nccl_abi::comm const was = std::exchange(me.comm, nullptr);
      NCCL_OK(ncclCommDestroy(was));
      EXPECT_EQ(ncclAllReduce(at(data), at(data), 4, nccl_abi::float32, nccl_abi::sum, was,
                              me.stream.get()),
                nccl_abi::invalid_argument);
      NCCL_OK(ncclGroupStart());
      EXPECT_EQ(ncclSend(at(data), 4, nccl_abi::float32, 0, was, me.stream.get()),
                nccl_abi::invalid_argument);
      NCCL_OK(ncclGroupEnd());
    });
  }
}

/// Arguments are checked as for a communicator that is used for the first time.
TEST(NcclIslandCalls, OfKnownCommunicatorsAreChecked) {
  expect_log("");
  nccl_ranks ranks(2, islands::one);
  ranks.run([](nccl_rank& me) {
    accelerator::stream const on = me.stream.get();
    const int f = nccl_abi::float32;
    device_numbers data(me, filled(4, own(me))), into(me, filled(4, -1));
    NCCL_OK(ncclAllReduce(at(data), at(data), 4, f, nccl_abi::sum, me.comm, on));
    const auto refused = [&me](nccl_abi::result got, const std::string& text) {
      EXPECT_EQ(got, nccl_abi::invalid_argument) << text;
      const std::string last = ncclGetLastError(me.comm);
      EXPECT_NE(last.find(text), std::string::npos) << last;
    };
    for (const int none : {-1, 2}) {
      const std::string text = std::to_string(none) + " of a communicator of 2 ranks";
      refused(ncclBroadcast(at(data), at(into), 4, f, none, me.comm, on), "root " + text);
      refused(ncclReduce(at(data), at(into), 4, f, nccl_abi::sum, none, me.comm, on),
              "root " + text);
      refused(ncclGather(at(data), at(into), 2, f, none, me.comm, on), "root " + text);
      refused(ncclScatter(at(data), at(into), 2, f, none, me.comm, on), "root " + text);
      refused(ncclSend(at(data), 4, f, none, me.comm, on), "peer " + text);
      refused(ncclRecv(at(data), 4, f, none, me.comm, on), "peer " + text);
    }
    refused(ncclSend(nullptr, 4, f, 1 - me.rank, me.comm, on), "a buffer is NULL");
    refused(ncclAllGather(at(data), nullptr, 2, f, me.comm, on), "a buffer is NULL");
    for (const int op : {-1, 100})
      refused(ncclAllReduce(at(data), at(data), 4, f, op, me.comm, on), "is no reduction");
    for (const int type : {-1, 99, 256 + f}) {
      refused(ncclAllReduce(at(data), at(data), 4, type, nccl_abi::sum, me.comm, on),
              std::to_string(type) + " is no data type");
      refused(ncclSend(at(data), 4, type, 1 - me.rank, me.comm, on),
              std::to_string(type) + " is no data type");
    }
    NCCL_OK(ncclAllReduce(at(data), at(data), 4, f, nccl_abi::sum, me.comm, on));
    EXPECT_EQ(data.get(), filled(4, 6));
  });
}

/// Another thread may end the communicator while a group has calls of it.
TEST(NcclIslandCalls, AreRefusedWhereTheCommunicatorIsAbortedMeanwhile) {
  expect_log("");
  nccl_ranks ranks(2, islands::one);
  ranks.run([](nccl_rank& me) {
    device_numbers data(me, filled(4, own(me)));
    const auto all_reduce = [&] {
      return ncclAllReduce(at(data), at(data), 4, nccl_abi::float32, nccl_abi::sum, me.comm,
                           me.stream.get());
    };
    NCCL_OK(all_reduce());
    EXPECT_EQ(data.get(), filled(4, 3));
    NCCL_OK(ncclGroupStart());
    NCCL_OK(all_reduce());
    NCCL_OK(ncclCommAbort(std::exchange(me.comm, nullptr)));
    EXPECT_NE(ncclGroupEnd(), nccl_abi::success);
    NCCL_OK(ncclGroupStart());  // which has none of those calls
    NCCL_OK(ncclGroupEnd());
    EXPECT_EQ(data.get(), filled(4, 3));
  });
}

}  // namespace
}  // namespace tandem::test
