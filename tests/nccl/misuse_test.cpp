// Wrong calls of NCCL's interface: each gets a sentence, and changes nothing.
#include <string>

#include "nccl/rank_threads.hpp"
#include "support/expected_log.hpp"

namespace tandem::test {
namespace {

TEST(NcclMisuse, IsNamed) {
  expect_log("");
  nccl_ranks ranks(2, islands::of_one_rank);
  ranks.run([](nccl_rank& me) {
    accelerator::stream const on = me.stream.get();
    device_numbers data(me, filled(2, own(me)));
    const auto refused = [&](nccl_abi::result got, nccl_abi::result expected, const char* text) {
      EXPECT_EQ(got, expected) << text;
      EXPECT_NE(std::string(ncclGetLastError(nullptr)).find(text), std::string::npos)
          << ncclGetLastError(nullptr);
    };
    void* const d = at(data);
    refused(ncclAllReduce(d, d, 1, 12, nccl_abi::sum, me.comm, on), nccl_abi::invalid_argument,
            "12 is no data type");
    refused(ncclAllReduce(d, d, 1, nccl_abi::float32, 77, me.comm, on), nccl_abi::invalid_argument,
            "77 is no reduction");
    refused(ncclBroadcast(d, d, 1, nccl_abi::float32, 2, me.comm, on), nccl_abi::invalid_argument,
            "root 2 of a communicator of 2 ranks");
    refused(ncclSend(d, 1, nccl_abi::float32, -1, me.comm, on), nccl_abi::invalid_argument,
            "peer -1");
    refused(ncclAllReduce(nullptr, d, 1, nccl_abi::float32, nccl_abi::sum, me.comm, on),
            nccl_abi::invalid_argument, "NULL");
    refused(ncclAllReduce(d, d, 1, nccl_abi::float32, nccl_abi::sum, nullptr, on),
            nccl_abi::invalid_argument, "the communicator is NULL");
    int anything = 0;
    refused(ncclAllReduce(d, d, 1, nccl_abi::float32, nccl_abi::sum,
                          reinterpret_cast<nccl_abi::comm>(&anything), on),
            nccl_abi::invalid_argument, "no communicator");
    refused(ncclGroupEnd(), nccl_abi::invalid_usage, "without ncclGroupStart");
    nccl_abi::window window = nullptr;
    refused(ncclCommWindowRegister(me.comm, d, 4, &window, 0), nccl_abi::invalid_usage, "windows");
    refused(ncclCommGrow(), nccl_abi::invalid_usage, "ncclCommGrow");
    refused(ncclMemFree(&anything), nccl_abi::invalid_argument, "ncclMemAlloc");
    void* handle = nullptr;
    NCCL_OK(ncclCommRegister(me.comm, d, 8, &handle));
    NCCL_OK(ncclCommDeregister(me.comm, handle));
    // Nothing of this has done any harm.
    NCCL_OK(ncclAllReduce(d, d, 2, nccl_abi::float32, nccl_abi::sum, me.comm, on));
    EXPECT_EQ(data.get(), filled(2, 3));
  });
}

TEST(NcclMisuse, MismatchedCallsEndOnEveryRank) {
  expect_log("");
  nccl_ranks ranks(2, islands::of_one_rank);
  ranks.run([](nccl_rank& me) {
    device_numbers data(me, filled(8, own(me)));
    const std::size_t count = me.rank == 0 ? 8 : 4;
    const nccl_abi::result got = ncclAllReduce(at(data), at(data), count, nccl_abi::float32,
                                               nccl_abi::sum, me.comm, me.stream.get());
    EXPECT_NE(got, nccl_abi::success);
    EXPECT_NE(std::string(ncclGetLastError(me.comm)).find("all_reduce"), std::string::npos)
        << ncclGetLastError(me.comm);
  });
}

}  // namespace
}  // namespace tandem::test
