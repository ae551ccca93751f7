// Ranks of one island whose calls differ, or that do not make them. The vendor's library would wait
// for ever; here each rank gets an error that names both calls, or the rank that is missing.
#include <chrono>
#include <latch>
#include <string>
#include <thread>

#include "nccl/rank_threads.hpp"
#include "support/expected_log.hpp"

namespace tandem::test {
namespace {

using std::chrono::milliseconds;

/// The error that ends the communicator; `success`: none for so long.
nccl_abi::result error_of(const nccl_rank& me, milliseconds within = std::chrono::seconds(20)) {
  nccl_abi::result now = nccl_abi::success;
  const auto end = std::chrono::steady_clock::now() + within;
  while (now == nccl_abi::success && std::chrono::steady_clock::now() < end) {
    NCCL_OK(ncclCommGetAsyncError(me.comm, &now));
    std::this_thread::sleep_for(milliseconds(1));
  }
  return now;
}

void expect_text(const nccl_rank& me, const std::string& text) {
  const std::string last = ncclGetLastError(me.comm);
  EXPECT_NE(last.find(text), std::string::npos) << last;
}

/// Its kernels end with it.
void abort(nccl_rank& me) {
  NCCL_OK(ncclCommAbort(std::exchange(me.comm, nullptr)));
  me.gpu->finish(me.stream.get());
}

nccl_abi::result all_reduced(nccl_rank& me, device_numbers& data, std::size_t count = 4,
                             int type = nccl_abi::float32, int op = nccl_abi::sum) {
  return ncclAllReduce(at(data), at(data), count, type, op, me.comm, me.stream.get());
}

struct difference {
  const char* name;
  nccl_abi::result (*call)(nccl_rank&, device_numbers&, bool is_other);
  std::array<const char*, 2> texts;
};

const difference differences[] = {
    {"count",
     [](nccl_rank& me, device_numbers& data, bool is_other) {
       return all_reduced(me, data, is_other ? 2 : 4);
     },
     {"all_reduce of 16 bytes", "all_reduce of 8 bytes"}},
    {"type",
     [](nccl_rank& me, device_numbers& data, bool is_other) {
       return all_reduced(me, data, 4, is_other ? nccl_abi::int32 : nccl_abi::float32);
     },
     {"float32, sum", "int32, sum"}},
    {"operation",
     [](nccl_rank& me, device_numbers& data, bool is_other) {
       return all_reduced(me, data, 4, nccl_abi::float32,
                          is_other ? nccl_abi::product : nccl_abi::sum);
     },
     {"float32, sum", "float32, product"}},
    {"root",
     [](nccl_rank& me, device_numbers& data, bool is_other) {
       return ncclReduce(at(data), at(data), 4, nccl_abi::float32, nccl_abi::sum, is_other ? 1 : 0,
                         me.comm, me.stream.get());
     },
     {"with root 0", "with root 1"}},
    {"function",
     [](nccl_rank& me, device_numbers& data, bool is_other) {
       if (!is_other) return all_reduced(me, data, 2);
       return ncclBroadcast(at(data), at(data), 2, nccl_abi::float32, 0, me.comm, me.stream.get());
     },
     {"all_reduce of 8 bytes", "broadcast of 8 bytes with root 0"}},
    {"gathered_length",
     [](nccl_rank& me, device_numbers& data, bool is_other) {
       return ncclAllGather(at(data), at(data), is_other ? 1 : 2, nccl_abi::float32, me.comm,
                            me.stream.get());
     },
     {"all_gather of 8 bytes", "all_gather of 4 bytes"}},
    {"message",
     [](nccl_rank& me, device_numbers& data, bool is_other) {
       if (me.rank == 0)
         return ncclSend(at(data), 4, nccl_abi::float32, 1, me.comm, me.stream.get());
       return ncclRecv(at(data), is_other ? 3 : 4, nccl_abi::float32, 0, me.comm, me.stream.get());
     },
     {"message 1 of 16 bytes", "message 1 of 12 bytes"}},
};

class NcclIslandFaults : public testing::TestWithParam<difference> {};
INSTANTIATE_TEST_SUITE_P(Differences, NcclIslandFaults, testing::ValuesIn(differences),
                         [](const auto& of) { return of.param.name; });

TEST_P(NcclIslandFaults, DifferentCallsAreNamedOnBothRanks) {
  expect_log("same calls in the same order");
  nccl_ranks ranks(2, islands::one);
  ranks.library.hang_mismatches();
  ranks.run([this](nccl_rank& me) {
    device_numbers data(me, filled(8, own(me)));
    NCCL_OK(all_reduced(me, data));
    data.get();
    NCCL_OK(GetParam().call(me, data, me.rank == 1));
    EXPECT_EQ(error_of(me), nccl_abi::remote_error);
    for (const char* const each : GetParam().texts) expect_text(me, each);
    expect_text(me, "same calls in the same order");
    EXPECT_EQ(all_reduced(me, data), nccl_abi::remote_error);
    abort(me);
  });
}

/// Ranks 0 and 3 are no neighbours of rank 1 or 2, or none of both.
TEST(NcclIsland, ADifferenceBetweenTwoIsNamedOnAllRanks) {
  nccl_ranks ranks(4, islands::one);
  ranks.library.hang_mismatches();
  ranks.run([](nccl_rank& me) {
    device_numbers data(me, filled(8, own(me)));
    NCCL_OK(all_reduced(me, data, me.rank == 2 ? 3 : 4));
    EXPECT_EQ(error_of(me), nccl_abi::remote_error);
    expect_text(me, "all_reduce of 16 bytes");
    expect_text(me, "all_reduce of 12 bytes");
    expect_text(me, "rank 2");
    abort(me);
  });
}

/// The limit holds while the ranks join, too: all of them, with sanitizers, on a busy machine.
constexpr const char* time_limit_s = "5";

TEST(NcclIsland, ARankThatDoesNotCallIsNamedWithinTheTimeLimit) {
  const environment_variable limit("TANDEM_OPERATION_TIMEOUT_S", time_limit_s);
  nccl_ranks ranks(3, islands::one);
  ranks.run([](nccl_rank& me) {
    device_numbers data(me, filled(4, own(me)));
    NCCL_OK(all_reduced(me, data));
    EXPECT_EQ(data.get(), filled(4, 6));
    if (me.rank != 1) {
      NCCL_OK(all_reduced(me, data));
    }
    EXPECT_EQ(error_of(me), nccl_abi::remote_error);
    expect_text(me, "rank 1 has made 1 of 2 collectives");
    abort(me);
  });
}

TEST(NcclIsland, AMessageWithoutAReceiverIsNamedWithinTheTimeLimit) {
  const environment_variable limit("TANDEM_OPERATION_TIMEOUT_S", time_limit_s);
  nccl_ranks ranks(4, islands::one);
  ranks.run([](nccl_rank& me) {
    device_numbers data(me, filled(4, own(me)));
    NCCL_OK(all_reduced(me, data));
    data.get();
    // To a rank that is no neighbour.
    if (me.rank == 0) {
      NCCL_OK(ncclSend(at(data), 4, nccl_abi::float32, 2, me.comm, me.stream.get()));
    }
    EXPECT_EQ(error_of(me), nccl_abi::remote_error);
    expect_text(me, "rank 2 has made 0 of 1 receives from this rank");
    abort(me);
  });
}

/// As with NCCL, whose programs may leave a rank waiting for as long as they like.
TEST(NcclIsland, WithoutATimeLimitARankMayBeLate) {
  nccl_ranks ranks(2, islands::one);
  ranks.run([](nccl_rank& me) {
    device_numbers data(me, filled(4, own(me)));
    if (me.rank == 0) {
      EXPECT_EQ(error_of(me, milliseconds(1500)), nccl_abi::success);
    }
    for (int i = 0; i < 3; ++i) NCCL_OK(all_reduced(me, data));
    EXPECT_EQ(data.get(), filled(4, 12));
    EXPECT_EQ(error_of(me, milliseconds(600)), nccl_abi::success);
  });
}

/// Calls of no elements are none: a rank need not make them.
TEST(NcclIsland, CallsOfNoElementsAreNotCompared) {
  nccl_ranks ranks(2, islands::one);
  ranks.run([](nccl_rank& me) {
    device_numbers data(me, filled(4, own(me)));
    if (me.rank == 0) {
      NCCL_OK(all_reduced(me, data, 0));
    }
    NCCL_OK(all_reduced(me, data));
    data.get();
    EXPECT_EQ(error_of(me, milliseconds(600)), nccl_abi::success);
  });
}

}  // namespace
}  // namespace tandem::test
