// Calls of NCCL's interface on simulated GPUs: inside an island, where the vendor's library carries
// them, and across islands, where channels do. The results are the same.
#include <chrono>
#include <cmath>
#include <future>
#include <latch>
#include <thread>
#include <utility>

#include "nccl/rank_threads.hpp"
#include "support/expected_log.hpp"

namespace tandem::test {
namespace {

class NcclCalls : public testing::TestWithParam<islands> {};
INSTANTIATE_TEST_SUITE_P(Islands, NcclCalls,
                         testing::Values(islands::one, islands::of_one_rank,
                                         islands::of_one_rank_staged,
                                         islands::of_one_rank_by_kernels,
                                         islands::of_one_rank_relayed),
                         name_of_islands);

TEST_P(NcclCalls, Reduce) {
  nccl_ranks ranks(3, GetParam());
  ranks.run([](nccl_rank& me) {
    accelerator::stream const on = me.stream.get();
    for (int round = 0; round < 5; ++round) {
      device_numbers data(me, filled(5, own(me)));
      NCCL_OK(ncclAllReduce(at(data), at(data), 5, nccl_abi::float32, nccl_abi::sum, me.comm, on));
      EXPECT_EQ(data.get(), filled(5, 6));
    }
    device_numbers data(me, filled(5, own(me))), into(me, filled(5, -1));
    NCCL_OK(
        pncclAllReduce(at(data), at(into), 5, nccl_abi::float32, nccl_abi::average, me.comm, on));
    EXPECT_EQ(into.get(), filled(5, 2));
    NCCL_OK(
        ncclAllReduce(at(data), at(into), 5, nccl_abi::float32, nccl_abi::product, me.comm, on));
    EXPECT_EQ(into.get(), filled(5, 6));
    NCCL_OK(
        ncclAllReduce(at(data), at(into), 5, nccl_abi::float32, nccl_abi::maximum, me.comm, on));
    EXPECT_EQ(into.get(), filled(5, 3));
    NCCL_OK(
        ncclAllReduce(at(data), at(into), 5, nccl_abi::float32, nccl_abi::minimum, me.comm, on));
    EXPECT_EQ(into.get(), filled(5, 1));

    device_numbers only(me, filled(5, -1));
    NCCL_OK(ncclReduce(at(data), me.rank == 2 ? at(only) : nullptr, 5, nccl_abi::float32,
                       nccl_abi::sum, 2, me.comm, on));
    EXPECT_EQ(only.get(), filled(5, me.rank == 2 ? 6 : -1));

    device_numbers blocks(me, {own(me), 10 * own(me), 100 * own(me)}), mine(me, {-1});
    NCCL_OK(
        ncclReduceScatter(at(blocks), at(mine), 1, nccl_abi::float32, nccl_abi::sum, me.comm, on));
    EXPECT_EQ(mine.get(), filled(1, 6 * std::pow(10.0F, static_cast<float>(me.rank))));
  });
}

TEST_P(NcclCalls, PremultipliedSums) {
  nccl_ranks ranks(2, GetParam());
  ranks.run([this](nccl_rank& me) {
    float half = 0.5F;
    int op = 0;
    NCCL_OK(ncclRedOpCreatePreMulSum(&op, &half, nccl_abi::float32, nccl_abi::on_host, me.comm));
    half = 99;  // its value was taken
    device_numbers data(me, filled(3, own(me)));
    NCCL_OK(ncclAllReduce(at(data), at(data), 3, nccl_abi::float32, op, me.comm, me.stream.get()));
    EXPECT_EQ(data.get(), filled(3, 1.5F));
    EXPECT_EQ(ncclRedOpDestroy(op, me.comm), nccl_abi::success);

    // The simulated library has no factors on devices.
    if (this->GetParam() == islands::one) return;
    device_numbers factor(me, filled(1, 2));
    NCCL_OK(
        ncclRedOpCreatePreMulSum(&op, at(factor), nccl_abi::float32, nccl_abi::on_device, me.comm));
    device_numbers more(me, filled(3, own(me)));
    NCCL_OK(ncclAllReduce(at(more), at(more), 3, nccl_abi::float32, op, me.comm, me.stream.get()));
    EXPECT_EQ(more.get(), filled(3, 6));
    EXPECT_EQ(ncclRedOpDestroy(op, me.comm), nccl_abi::success);
  });
}

TEST_P(NcclCalls, MoveData) {
  nccl_ranks ranks(3, GetParam());
  ranks.run([](nccl_rank& me) {
    accelerator::stream const on = me.stream.get();
    device_numbers data(me, filled(4, own(me))), into(me, filled(4, -1));
    NCCL_OK(ncclBroadcast(at(data), at(into), 4, nccl_abi::float32, 1, me.comm, on));
    EXPECT_EQ(into.get(), filled(4, 2));
    NCCL_OK(ncclBcast(at(data), 4, nccl_abi::float32, 2, me.comm, on));
    EXPECT_EQ(data.get(), filled(4, 3));

    device_numbers one(me, {own(me)}), all(me, filled(3, -1));
    NCCL_OK(ncclAllGather(at(one), at(all), 1, nccl_abi::float32, me.comm, on));
    EXPECT_EQ(all.get(), (numbers{1, 2, 3}));
    device_numbers in_place(me, filled(3, own(me)));
    NCCL_OK(ncclAllGather(in_place.part(static_cast<std::size_t>(me.rank), 1).data, at(in_place), 1,
                          nccl_abi::float32, me.comm, on));
    EXPECT_EQ(in_place.get(), (numbers{1, 2, 3}));

    device_numbers gathered(me, filled(3, -1));
    NCCL_OK(ncclGather(at(one), at(gathered), 1, nccl_abi::float32, 1, me.comm, on));
    EXPECT_EQ(gathered.get(), me.rank == 1 ? (numbers{1, 2, 3}) : filled(3, -1));
    device_numbers part(me, {-1});
    device_numbers to_scatter(me, {4 * own(me), 5 * own(me), 6 * own(me)});
    NCCL_OK(ncclScatter(at(to_scatter), at(part), 1, nccl_abi::float32, 0, me.comm, on));
    EXPECT_EQ(part.get(), filled(1, static_cast<float>(4 + me.rank)));

    device_numbers from(me, {10 * own(me), 10 * own(me) + 1, 10 * own(me) + 2});
    NCCL_OK(ncclAlltoAll(at(from), at(all), 1, nccl_abi::float32, me.comm, on));
    const auto mine = static_cast<float>(me.rank);
    EXPECT_EQ(all.get(), (numbers{10 + mine, 20 + mine, 30 + mine}));
    device_numbers exchanged(me, {10 * own(me), 10 * own(me) + 1, 10 * own(me) + 2});
    NCCL_OK(ncclAlltoAll(at(exchanged), at(exchanged), 1, nccl_abi::float32, me.comm, on));
    EXPECT_EQ(exchanged.get(), (numbers{10 + mine, 20 + mine, 30 + mine}));
    // The first element to rank 0, none to rank 1, the two others to rank 2.
    const std::size_t sent[] = {1, 0, 2}, send_at[] = {0, 1, 1};
    const std::size_t counts[] = {1, 0, 2};
    const std::size_t n = counts[me.rank];
    const std::size_t received[] = {n, n, n}, receive_at[] = {0, n, 2 * n};
    device_numbers v(me, filled(6, -1));
    NCCL_OK(ncclAllToAllv(at(from), sent, send_at, at(v), received, receive_at, nccl_abi::float32,
                          me.comm, on));
    const numbers expected[] = {{10, 20, 30, -1, -1, -1}, filled(6, -1), {11, 12, 21, 22, 31, 32}};
    EXPECT_EQ(v.get(), expected[me.rank]);
  });
}

/// Every rank sends to the next one and receives from the one before, in one group, and to itself.
TEST_P(NcclCalls, MessagesInAGroup) {
  nccl_ranks ranks(3, GetParam());
  ranks.run([](nccl_rank& me) {
    accelerator::stream const on = me.stream.get();
    for (int round = 0; round < 10; ++round) {
      device_numbers sent(me, filled(7, own(me))), received(me, filled(7, -1));
      device_numbers to_self(me, filled(2, -1));
      NCCL_OK(ncclGroupStart());
      NCCL_OK(ncclSend(at(sent), 7, nccl_abi::float32, (me.rank + 1) % 3, me.comm, on));
      NCCL_OK(ncclGroupStart());  // groups nest
      NCCL_OK(ncclRecv(at(received), 7, nccl_abi::float32, (me.rank + 2) % 3, me.comm, on));
      NCCL_OK(ncclGroupEnd());
      NCCL_OK(ncclSend(at(sent), 2, nccl_abi::float32, me.rank, me.comm, on));
      NCCL_OK(ncclRecv(at(to_self), 2, nccl_abi::float32, me.rank, me.comm, on));
      NCCL_OK(ncclGroupEnd());
      EXPECT_EQ(received.get(), filled(7, static_cast<float>((me.rank + 2) % 3 + 1)));
      EXPECT_EQ(to_self.get(), filled(2, own(me)));
    }
  });
}

/// A program with several devices: one thread is all ranks, and groups their calls.
TEST_P(NcclCalls, OneThreadIsAllRanks) {
  nccl_ranks devices(1, GetParam());
  devices.each([](nccl_rank&) {
    std::vector<nccl_abi::comm> comms(3);
    NCCL_OK(ncclCommInitAll(comms.data(), 3, nullptr));
    std::vector<device_rank> ranks(3);
    std::vector<std::unique_ptr<device_numbers>> data;
    for (int r = 0; r < 3; ++r) {
      device_rank& me = ranks[static_cast<std::size_t>(r)];
      me.device = r;
      me.gpu = &accelerator_at(memory_kind::cuda, r);
      me.stream = device_stream(*me.gpu);
      data.push_back(std::make_unique<device_numbers>(me, filled(5, static_cast<float>(r + 1))));
    }
    NCCL_OK(ncclGroupStart());
    for (std::size_t r = 0; r < 3; ++r) {
      int device = -1;
      NCCL_OK(ncclCommCuDevice(comms[r], &device));
      EXPECT_EQ(device, static_cast<int>(r));
      NCCL_OK(ncclAllReduce(at(*data[r]), at(*data[r]), 5, nccl_abi::float32, nccl_abi::sum,
                            comms[r], ranks[r].stream.get()));
    }
    NCCL_OK(ncclGroupEnd());
    for (const auto& each : data) EXPECT_EQ(each->get(), filled(5, 6));
    for (nccl_abi::comm each : comms) NCCL_OK(ncclCommDestroy(each));
  });
}

TEST_P(NcclCalls, NonBlockingCommunicators) {
  nccl_ranks ranks(2, GetParam());
  nccl_abi::unique_id id;
  ASSERT_EQ(ncclGetUniqueId(&id), nccl_abi::success);
  ranks.each([&](nccl_rank& me) {
    nccl_abi::config how{sizeof how,
                         nccl_abi::config_magic,
                         nccl_abi::version,
                         0,
                         nccl_abi::undefined,
                         nccl_abi::undefined,
                         nccl_abi::undefined,
                         nullptr,
                         nccl_abi::undefined,
                         nccl_abi::undefined,
                         nullptr};
    EXPECT_EQ(ncclCommInitRankConfig(&me.comm, 2, id, me.rank, &how), nccl_abi::in_progress);
    nccl_abi::result now = nccl_abi::in_progress;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (now == nccl_abi::in_progress && std::chrono::steady_clock::now() < limit)
      NCCL_OK(ncclCommGetAsyncError(me.comm, &now));
    ASSERT_EQ(now, nccl_abi::success) << ncclGetLastError(me.comm);
    device_numbers data(me, filled(5, own(me)));
    NCCL_OK(ncclAllReduce(at(data), at(data), 5, nccl_abi::float32, nccl_abi::sum, me.comm,
                          me.stream.get()));
    EXPECT_EQ(data.get(), filled(5, 3));
    NCCL_OK(ncclCommFinalize(me.comm));
    NCCL_OK(ncclCommDestroy(me.comm));
  });
}

TEST_P(NcclCalls, NoElements) {
  nccl_ranks ranks(2, GetParam());
  ranks.run([](nccl_rank& me) {
    NCCL_OK(ncclAllReduce(nullptr, nullptr, 0, nccl_abi::float32, nccl_abi::sum, me.comm,
                          me.stream.get()));
    NCCL_OK(ncclAllGather(nullptr, nullptr, 0, nccl_abi::float16, me.comm, me.stream.get()));
  });
}

TEST(NcclIsland, IsCarriedByTheVendorsLibrary) {
  nccl_ranks ranks(2, islands::one);
  ranks.run([](nccl_rank& me) {
    device_numbers data(me, filled(5, own(me)));
    NCCL_OK(ncclAllReduce(at(data), at(data), 5, nccl_abi::float32, nccl_abi::sum, me.comm,
                          me.stream.get()));
    data.get();
  });
  EXPECT_EQ(ranks.library.calls("ncclAllReduce"), 2);
}

/// Streams wait, not threads, except for the first call of a kind: rank 0 queues receives before
/// rank 1 sends, and goes on.
TEST(NcclAcrossIslands, CallsReturnBeforeThePeerMakesThem) {
  const environment_variable waits("TANDEM_STREAM_WAITS", "1");
  nccl_ranks ranks(2, islands::of_one_rank);
  std::promise<void> queued;
  std::shared_future<void> is_queued = queued.get_future().share();
  ranks.run([&](nccl_rank& me) {
    device_numbers data(me, filled(6, own(me)));
    if (me.rank == 0) {
      NCCL_OK(ncclRecv(at(data), 1, nccl_abi::float32, 1, me.comm, me.stream.get()));
    } else {
      NCCL_OK(ncclSend(at(data), 1, nccl_abi::float32, 0, me.comm, me.stream.get()));
    }
    if (me.rank == 0) {
      for (std::size_t i = 0; i < 6; ++i)
        NCCL_OK(ncclRecv(data.part(i, 1).data, 1, nccl_abi::float32, 1, me.comm, me.stream.get()));
      queued.set_value();
    } else {
      is_queued.wait();
      for (std::size_t i = 0; i < 6; ++i)
        NCCL_OK(ncclSend(data.part(i, 1).data, 1, nccl_abi::float32, 0, me.comm, me.stream.get()));
    }
    EXPECT_EQ(data.get(), filled(6, 2));
  });
}

/// The stream waits for a message that never comes, until the communicator is aborted.
TEST(NcclAcrossIslands, AnAbortReleasesStreams) {
  expect_log("no communicator, or one that was destroyed");
  expect_log("has aborted");
  const environment_variable waits("TANDEM_STREAM_WAITS", "1");
  nccl_ranks ranks(2, islands::of_one_rank);
  std::promise<void> queued;
  std::shared_future<void> is_queued = queued.get_future().share();
  ranks.run([&](nccl_rank& me) {
    device_numbers data(me, filled(1, own(me))), sent(me, filled(1, 7));
    NCCL_OK(ncclGroupStart());
    NCCL_OK(ncclSend(at(sent), 1, nccl_abi::float32, 1 - me.rank, me.comm, me.stream.get()));
    NCCL_OK(ncclRecv(at(data), 1, nccl_abi::float32, 1 - me.rank, me.comm, me.stream.get()));
    NCCL_OK(ncclGroupEnd());
    NCCL_OK(ncclRecv(at(data), 1, nccl_abi::float32, 1 - me.rank, me.comm, me.stream.get()));
    if (me.rank == 0) {
      is_queued.wait();
      const nccl_abi::comm mine = std::exchange(me.comm, nullptr);
      std::thread watchdog([mine] { EXPECT_EQ(ncclCommAbort(mine), nccl_abi::success); });
      me.gpu->finish(me.stream.get());
      watchdog.join();
      EXPECT_EQ(ncclAllReduce(at(data), at(data), 1, nccl_abi::float32, nccl_abi::sum, mine,
                              me.stream.get()),
                nccl_abi::invalid_argument);
    } else {
      queued.set_value();
      me.gpu->finish(me.stream.get());  // the other rank's abort
      nccl_abi::result now = nccl_abi::success;
      NCCL_OK(ncclCommGetAsyncError(me.comm, &now));
      EXPECT_EQ(now, nccl_abi::remote_error);
      EXPECT_NE(std::string(ncclGetLastError(me.comm)).find("rank 0 has aborted"),
                std::string::npos)
          << ncclGetLastError(me.comm);
      EXPECT_EQ(ncclSend(at(data), 1, nccl_abi::float32, 0, me.comm, me.stream.get()),
                nccl_abi::remote_error);
    }
  });
}

/// The same for collectives by way of pinned memory.
TEST(NcclAcrossIslands, AnAbortReleasesStreamsOfCollectives) {
  expect_log("has aborted");
  nccl_ranks ranks(2, islands::of_one_rank_staged);
  std::promise<void> queued;
  std::shared_future<void> is_queued = queued.get_future().share();
  ranks.run([&](nccl_rank& me) {
    device_numbers data(me, filled(6, 1));
    const auto reduce = [&] {
      return ncclAllReduce(at(data), at(data), 6, nccl_abi::float32, nccl_abi::sum, me.comm,
                           me.stream.get());
    };
    for (int i = 0; i < 3; ++i) NCCL_OK(reduce());
    EXPECT_EQ(data.get(), filled(6, 8));
    if (me.rank == 0) {
      is_queued.wait();
      EXPECT_EQ(ncclCommAbort(std::exchange(me.comm, nullptr)), nccl_abi::success);
    } else {
      for (int i = 0; i < 20; ++i) NCCL_OK(reduce());
      queued.set_value();
      me.gpu->finish(me.stream.get());
      EXPECT_EQ(reduce(), nccl_abi::remote_error);
      EXPECT_NE(std::string(ncclGetLastError(me.comm)).find("rank 0 has aborted"),
                std::string::npos)
          << ncclGetLastError(me.comm);
    }
    data.finish();
  });
}

/// What has been queued is carried out.
TEST(NcclAcrossIslands, ACommunicatorIsDestroyedBehindItsCollectives) {
  nccl_ranks ranks(2, islands::of_one_rank_staged);
  ranks.run([&](nccl_rank& me) {
    device_numbers data(me, filled(6, 1));
    for (int i = 0; i < 30; ++i) {
      NCCL_OK(ncclAllReduce(data.part(0, 3).data, data.part(3, 3).data, 3, nccl_abi::float32,
                            nccl_abi::sum, me.comm, me.stream.get()));
    }
    EXPECT_EQ(ncclCommDestroy(std::exchange(me.comm, nullptr)), nccl_abi::success);
    EXPECT_EQ(data.get(), (numbers{1, 1, 1, 2, 2, 2}));
  });
}

/// It makes no call, and asks for its state only.
TEST_P(NcclCalls, AnIdleRankHearsOfAnAbort) {
  nccl_ranks ranks(3, GetParam());
  std::latch joined(3);
  ranks.run([&](nccl_rank& me) {
    joined.arrive_and_wait();
    if (me.rank == 1) {
      NCCL_OK(ncclCommAbort(std::exchange(me.comm, nullptr)));
      return;
    }
    nccl_abi::result now = nccl_abi::success;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (now == nccl_abi::success && std::chrono::steady_clock::now() < end) {
      NCCL_OK(ncclCommGetAsyncError(me.comm, &now));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(now, nccl_abi::remote_error);
    EXPECT_NE(std::string(ncclGetLastError(me.comm)).find("rank 1 has aborted"), std::string::npos)
        << ncclGetLastError(me.comm);
    NCCL_OK(ncclCommAbort(std::exchange(me.comm, nullptr)));
  });
}

TEST(NcclAcrossIslands, AGraphIsRefused) {
  expect_log("captured into a graph");
  nccl_ranks ranks(2, islands::of_one_rank);
  ranks.run([&](nccl_rank& me) {
    device_numbers data(me, filled(1, own(me)));
    data.get();
    const auto on = static_cast<detail::cu::stream>(me.stream.get());
    ranks.gpus.gpus.capture(on, true);
    EXPECT_EQ(ncclAllReduce(at(data), at(data), 1, nccl_abi::float32, nccl_abi::sum, me.comm, on),
              nccl_abi::invalid_usage);
    ranks.gpus.gpus.capture(on, false);
  });
}

}  // namespace
}  // namespace tandem::test
