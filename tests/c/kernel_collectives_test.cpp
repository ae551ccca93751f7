// Short collectives between islands of one host, which kernels carry out on the callers' streams,
// through the C interface.
#include <atomic>
#include <barrier>
#include <numeric>
#include <string>

#include "c/kernel_jobs.hpp"

namespace tandem::test {
namespace {

constexpr tandem_reduction sum{TANDEM_UINT8, TANDEM_SUM, 1},
    maximum{TANDEM_UINT8, TANDEM_MAXIMUM, 1};

/// One call, which the stream waits for.
void run_call(device_rank& me, const stream_group::start_function& call) {
  stream_group one(me);
  one.add(call);
  EXPECT_EQ(one.launch(), TANDEM_OK) << me.error.text;
  EXPECT_EQ(one.finish(), TANDEM_OK) << me.error.text;
}

/// What the sum of all ranks' values is; each is `value` more than its rank.
int sum_of_all(device_rank& me, filled_bytes& data, filled_bytes& result, int value) {
  data.fill(me.rank + value);
  stream_group one(me);
  one.all_reduce(data.buffer(), result.buffer(), sum);
  EXPECT_EQ(one.launch(), TANDEM_OK) << me.error.text;
  const int got = result.value();
  EXPECT_EQ(one.finish(), TANDEM_OK) << me.error.text;
  return got;
}

class KernelCollectiveCalls : public KernelWays {};
INSTANTIATE_TEST_SUITE_P(Ways, KernelCollectiveCalls,
                         testing::Values(kernel_way::direct, kernel_way::relayed), name_of_way);

TEST_P(KernelCollectiveCalls, Sums) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{250'000}}) {
    SCOPED_TRACE(bytes);
    kernel_jobs jobs({0, 1, 2}, GetParam());
    jobs.run([bytes](device_rank& me) {
      filled_bytes data(me, bytes), result(me, bytes);
      for (int i = 0; i < 6; ++i) EXPECT_EQ(sum_of_all(me, data, result, i), 3 + 3 * i);
    });
    EXPECT_GE(jobs.launches(), 3 * 6 * 3U);  // messages, and two that combine
    EXPECT_EQ(jobs.library.calls("ncclAllReduce"), 0);
  }
}

/// Which exchanges and combines.
TEST_P(KernelCollectiveCalls, OfTwoRanksAreOneKernel) {
  kernel_jobs jobs({0, 1}, GetParam());
  jobs.run([](device_rank& me) {
    filled_bytes data(me, 5000), result(me, 5000);
    for (int i = 0; i < 6; ++i) EXPECT_EQ(sum_of_all(me, data, result, i), 1 + 2 * i);
  });
  EXPECT_EQ(jobs.launches(), 2 * 6U);
  EXPECT_EQ(jobs.gpus.kernels_that_wait.exchanges(), 2 * 6);
}

TEST_P(KernelCollectiveCalls, OfEveryKind) {
  kernel_jobs jobs({0, 1}, GetParam());
  jobs.run([](device_rank& me) {
    filled_bytes one(me, 3000), other(me, 3000), both(me, 6000);
    for (int i = 0; i < 3; ++i) {
      one.fill(me.rank + 10);
      run_call(me, [&](const device_rank& of, auto... rest) {
        return tandem_broadcast(of.world, one.buffer(), 1, rest...);
      });
      EXPECT_EQ(one.value(), 11);
      one.fill(me.rank + 10);
      run_call(me, [&](const device_rank& of, auto... rest) {
        return tandem_reduce(of.world, one.buffer(), other.buffer(), maximum, 0, rest...);
      });
      if (me.rank == 0) {
        EXPECT_EQ(other.value(), 11);
      }
      run_call(me, [&](const device_rank& of, auto... rest) {
        return tandem_all_gather(of.world, one.buffer(), both.buffer(), nullptr, rest...);
      });
      EXPECT_EQ(both.value(3000), 10);
      both.fill(me.rank + 1);
      run_call(me, [&](const device_rank& of, auto... rest) {
        return tandem_reduce_scatter(of.world, both.buffer(), other.buffer(), nullptr, sum,
                                     rest...);
      });
      EXPECT_EQ(other.value(), 3);
    }
  });
  EXPECT_GE(jobs.launches(), 2 * 3 * 4U);
}

/// Blocks of lengths of their own, more bytes than the limit, and calls that no stream may carry
/// out go another way, in between.
TEST_P(KernelCollectiveCalls, AmongOthers) {
  kernel_jobs jobs({0, 1}, GetParam());
  jobs.run([](device_rank& me) {
    filled_bytes data(me, 3000), result(me, 3000), joined(me, 6000), long_data(me, 300'000),
        long_result(me, 300'000);
    const std::size_t lengths[] = {3000, 3000};
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(sum_of_all(me, data, result, i), 1 + 2 * i);
      EXPECT_EQ(sum_of_all(me, long_data, long_result, i), 1 + 2 * i);
      run_call(me, [&](const device_rank& of, auto... rest) {
        return tandem_all_gather(of.world, data.buffer(), joined.buffer(), lengths, rest...);
      });
      EXPECT_EQ(joined.value(3000), i);
      const tandem_call plain = me.call();
      tandem_op* op = nullptr;
      EXPECT_EQ(tandem_all_reduce(me.world, data.buffer(), result.buffer(), maximum, &plain, &op,
                                  &me.error),
                TANDEM_OK);
      EXPECT_EQ(me.finish(op), TANDEM_OK) << me.error.text;
      EXPECT_EQ(result.value(), 1 + i);
    }
  });
}

TEST_P(KernelCollectiveCalls, InABatchWithMessages) {
  kernel_jobs jobs({0, 1}, GetParam());
  jobs.run([](device_rank& me) {
    const int other = 1 - me.rank;
    filled_bytes sent(me, 3000), received(me, 3000), data(me, 70'000), result(me, 70'000);
    for (int i = 0; i < 6; ++i) {
      sent.fill(me.rank + 2 * i);
      data.fill(me.rank + i);
      stream_group all(me);
      all.all_reduce(data.buffer(), result.buffer(), sum);
      all.send(sent.buffer(), other);
      all.all_reduce(data.buffer(), data.buffer(), maximum);
      all.receive(received.buffer(), other);
      EXPECT_EQ(all.launch(), TANDEM_OK) << me.error.text;
      EXPECT_EQ(received.value(), other + 2 * i);
      EXPECT_EQ(result.value(), 1 + 2 * i);
      EXPECT_EQ(data.value(), 1 + i);
      EXPECT_EQ(all.finish(), TANDEM_OK) << me.error.text;
    }
  });
}

/// On a stream that is not the caller's, which waits for it only when it says so. Messages are not,
/// where copy engines carry them.
TEST_P(KernelCollectiveCalls, BesideTheCallersStream) {
  kernel_jobs jobs({0, 1}, GetParam());
  jobs.run([](device_rank& me) {
    filled_bytes data(me, 3000), result(me, 3000);
    for (int i = 0; i < 4; ++i) {
      data.fill(me.rank + i);
      stream_group one(me);
      one.in_stream = 2;
      one.all_reduce(data.buffer(), result.buffer(), sum);
      EXPECT_EQ(one.launch(), TANDEM_OK) << me.error.text;
      EXPECT_EQ(result.value(), 1 + 2 * i);
      EXPECT_EQ(one.finish(), TANDEM_OK) << me.error.text;
    }
  });
  const std::size_t launched = jobs.launches();
  EXPECT_EQ(launched, 2 * 4U);
  jobs.run([](device_rank& me) {
    filled_bytes sent(me, 3000), received(me, 3000);
    for (int i = 0; i < 4; ++i) {
      sent.fill(me.rank + i);
      stream_group both(me);
      both.in_stream = 2;
      both.receive(received.buffer(), 1 - me.rank);
      both.send(sent.buffer(), 1 - me.rank);
      EXPECT_EQ(both.launch(), TANDEM_OK) << me.error.text;
      EXPECT_EQ(received.value(), 1 - me.rank + i);
      EXPECT_EQ(both.finish(), TANDEM_OK) << me.error.text;
    }
  });
  if (GetParam() == kernel_way::direct) {
    EXPECT_EQ(jobs.launches(), launched);
  } else {
    EXPECT_GT(jobs.launches(), launched);
  }
}

/// The ranks have theirs in different orders.
TEST_P(KernelCollectiveCalls, OfABatchOnSeveralStreams) {
  kernel_jobs jobs({0, 1}, GetParam());
  jobs.run([](device_rank& me) {
    const int other = 1 - me.rank;
    const device_stream second(*me.gpu);
    filled_bytes sent(me, 3000), received(me, 3000), data(me, 3000), result(me, 3000);
    for (int i = 0; i < 6; ++i) {
      sent.fill(me.rank + i);
      data.fill(me.rank + 2 * i);
      me.gpu->finish(me.stream.get());
      accelerator::stream streams[] = {me.stream.get(), second.get()};
      if (me.rank == 1) std::swap(streams[0], streams[1]);
      stream_group all(me);
      for (const std::size_t half : {0U, 1U}) {
        const auto part_of = [half](const filled_bytes& whole) {
          tandem_buffer part = whole.part(1500);
          part.data = static_cast<char*>(part.data) + half * 1500;
          return part;
        };
        const accelerator::stream on = streams[half];
        all.add_on(on, [&](const device_rank& of, auto... rest) {
          return tandem_send(of.world, part_of(sent), other, 0, rest...);
        });
        all.add_on(on, [&](const device_rank& of, auto... rest) {
          return tandem_recv(of.world, part_of(received), other, 0, rest...);
        });
        all.add_on(on, [&](const device_rank& of, auto... rest) {
          return tandem_all_reduce(of.world, part_of(data), part_of(result),
                                   half == 0 ? sum : maximum, rest...);
        });
      }
      EXPECT_EQ(all.launch(), TANDEM_OK) << me.error.text;
      me.gpu->finish(second.get());
      EXPECT_EQ(received.value(), other + i);
      EXPECT_EQ(result.value(1500), 1 + 4 * i);
      EXPECT_EQ(all.finish(), TANDEM_OK) << me.error.text;
    }
  });
}

/// A hundred calls before the peer's first: the caller is not held up.
TEST_P(KernelCollectiveCalls, QueuedAheadOfThePeer) {
  kernel_jobs jobs({0, 1}, GetParam());
  std::atomic<bool> are_queued{false};
  jobs.run([&are_queued](device_rank& me) {
    filled_bytes data(me, 70'000), result(me, 70'000);
    for (int i = 0; i < 2; ++i) sum_of_all(me, data, result, i);
    if (me.rank == 1) {
      while (!are_queued) std::this_thread::yield();
    }
    std::vector<std::unique_ptr<stream_group>> all;
    for (int i = 0; i < 100; ++i) {
      data.fill(me.rank + i);
      all.push_back(std::make_unique<stream_group>(me));
      all.back()->all_reduce(data.buffer(), result.buffer(), sum);
      EXPECT_EQ(all.back()->launch(), TANDEM_OK) << me.error.text;
    }
    are_queued = true;
    EXPECT_EQ(result.value(), 1 + 2 * 99);
    for (const auto& each : all) EXPECT_EQ(each->finish(), TANDEM_OK) << me.error.text;
  });
}

/// Both ranks notice; the first one ends the job.
TEST_P(KernelCollectiveCalls, ThatDifferAreNamed) {
  kernel_jobs jobs({0, 1}, GetParam());
  std::atomic<int> named{0};
  jobs.run([&named](device_rank& me) {
    filled_bytes data(me, 3000), result(me, 3000);
    for (int i = 0; i < 2; ++i) sum_of_all(me, data, result, i);
    stream_group one(me);
    one.all_reduce(data.buffer(), result.buffer(), me.rank == 0 ? sum : maximum);
    one.launch();
    const tandem_status status = one.finish();
    EXPECT_NE(status, TANDEM_OK);
    if (status != TANDEM_ERR_CALL_MISMATCH) return;
    ++named;
    for (const char* const word : {"all_reduce of uint8, sum (3000 bytes)",
                                   "all_reduce of uint8, maximum", "same arguments"}) {
      EXPECT_NE(std::string(me.error.text).find(word), std::string::npos) << me.error.text;
    }
  });
  EXPECT_GE(named, 1);
}

TEST_P(KernelCollectiveCalls, AnAbortLetsTheStreamsGo) {
  kernel_jobs jobs({0, 1}, GetParam());
  std::barrier<> through(2);
  jobs.run([&through](device_rank& me) {
    filled_bytes data(me, 3000), result(me, 3000);
    for (int i = 0; i < 2; ++i) sum_of_all(me, data, result, i);
    through.arrive_and_wait();
    if (me.rank == 1) {
      tandem_job_abort(me.job, "for a test");
      return;
    }
    stream_group never(me);
    never.all_reduce(data.buffer(), result.buffer(), sum);
    never.launch();
    EXPECT_EQ(never.finish(), TANDEM_ERR_PEER_LOST) << me.error.text;
    me.gpu->finish(me.stream.get());
  });
}

TEST_P(KernelCollectiveCalls, BadArgumentsAreRefusedAsByChannels) {
  kernel_jobs jobs({0, 1}, GetParam());
  jobs.run([](device_rank& me) {
    filled_bytes data(me, 3000), result(me, 3000);
    for (int i = 0; i < 2; ++i) sum_of_all(me, data, result, i);
    stream_group wrong(me);
    wrong.all_reduce(data.part(2000), result.buffer(), sum);
    wrong.launch();
    EXPECT_EQ(wrong.finish(), TANDEM_ERR_BAD_INPUT) << me.error.text;
    EXPECT_EQ(sum_of_all(me, data, result, 5), 11);
  });
}

/// Sooner than the loop looks for complete ones.
TEST(CompleteKernelCalls, AreLetGoOfByLaterOnes) {
  kernel_jobs jobs({0, 1}, kernel_way::direct);
  jobs.run([](device_rank& me) {
    filled_bytes data(me, 3000), result(me, 3000);
    for (int i = 0; i < 2; ++i) sum_of_all(me, data, result, i);
    stream_group first(me), second(me), third(me);
    for (stream_group* const each : {&first, &second, &third}) {
      each->all_reduce(data.buffer(), result.buffer(), sum);
      EXPECT_EQ(each->launch(), TANDEM_OK) << me.error.text;
      me.gpu->finish(me.stream.get());
    }
    EXPECT_TRUE(first.are_done());
    for (stream_group* const each : {&first, &second, &third}) EXPECT_EQ(each->finish(), TANDEM_OK);
  });
}

}  // namespace
}  // namespace tandem::test
