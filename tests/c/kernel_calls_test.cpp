// Short messages between islands of one host, which kernels carry out on the callers' streams,
// through the C interface.
#include <atomic>
#include <barrier>
#include <chrono>

#include "c/kernel_jobs.hpp"

namespace tandem::test {
namespace {

class KernelCalls : public KernelWays {};
INSTANTIATE_TEST_SUITE_P(Ways, KernelCalls,
                         testing::Values(kernel_way::direct, kernel_way::relayed), name_of_way);

TEST_P(KernelCalls, InARing) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{200'000}}) {
    SCOPED_TRACE(bytes);
    kernel_jobs jobs({0, 1, 2}, GetParam());
    jobs.run([bytes](device_rank& me) {
      filled_bytes sent(me, bytes), received(me, bytes);
      const int before = (me.rank + 2) % me.ranks;
      for (int i = 0; i < 8; ++i) {
        EXPECT_EQ(ring_step(me, sent, received, 20 * me.rank + i), 20 * before + i) << i;
      }
    });
    // One a step, but for the first messages, which are apart.
    EXPECT_LE(jobs.launches(), 3 * (7 + 2));
    EXPECT_GE(jobs.launches(), 3 * 8);
    EXPECT_EQ(jobs.library.calls("ncclSend"), 0);
  }
}

/// More data than the slots hold, each way: no kernel waits for one behind it.
TEST_P(KernelCalls, MoreMessagesThanOneKernelHas) {
  kernel_jobs jobs({0, 1}, GetParam());
  jobs.run([](device_rank& me) {
    constexpr std::size_t bytes = 250'000;
    constexpr int messages = 60;
    filled_bytes sent(me, bytes), first(me, bytes);
    for (int i = 0; i < 2; ++i) ring_step(me, sent, first, i);
    sent.fill(me.rank + 10);
    std::vector<std::unique_ptr<filled_bytes>> received;
    stream_group all(me);
    for (int i = 0; i < messages; ++i) {
      received.push_back(std::make_unique<filled_bytes>(me, bytes));
      all.send(sent.buffer(), 1 - me.rank);
      all.receive(received.back()->buffer(), 1 - me.rank);
    }
    EXPECT_EQ(all.launch(), TANDEM_OK) << me.error.text;
    for (const auto& each : received) EXPECT_EQ(each->value(), 11 - me.rank);
    EXPECT_EQ(all.finish(), TANDEM_OK) << me.error.text;
  });
}

/// Hundreds of calls before the peer's first: the caller is not held up.
TEST_P(KernelCalls, QueuedAheadOfThePeer) {
  kernel_jobs jobs({0, 1}, GetParam());
  std::atomic<bool> are_queued{false};
  jobs.run([&are_queued](device_rank& me) {
    filled_bytes sent(me, 70'000), received(me, 70'000);
    for (int i = 0; i < 2; ++i) ring_step(me, sent, received, i);
    std::vector<std::unique_ptr<stream_group>> all;
    if (me.rank == 1) {
      while (!are_queued) std::this_thread::yield();
    }
    for (int i = 0; i < 200; ++i) {
      sent.fill(i % 100);
      all.push_back(std::make_unique<stream_group>(me));
      all.back()->send(sent.buffer(), 1 - me.rank);
      all.back()->receive(received.buffer(), 1 - me.rank);
      EXPECT_EQ(all.back()->launch(), TANDEM_OK) << me.error.text;
    }
    are_queued = true;
    EXPECT_EQ(received.value(), 99);
    for (const auto& each : all) EXPECT_EQ(each->finish(), TANDEM_OK) << me.error.text;
  });
}

/// Also of messages that are too long for kernels, and of calls that no stream may carry out.
TEST_P(KernelCalls, AmongOthers) {
  kernel_jobs jobs({0, 1}, GetParam());
  jobs.run([](device_rank& me) {
    const int other = 1 - me.rank;
    filled_bytes sent(me, 3000), received(me, 3000), long_sent(me, 300'000),
        long_received(me, 300'000);
    for (int i = 0; i < 10; ++i) {
      sent.fill(me.rank + 2 * i);
      long_sent.fill(me.rank + 100);
      stream_group all(me);
      all.send(long_sent.buffer(), other);
      all.send(sent.buffer(), other);
      all.receive(received.buffer(), other);
      all.receive(long_received.buffer(), other);
      EXPECT_EQ(all.launch(), TANDEM_OK) << me.error.text;
      EXPECT_EQ(received.value(), other + 2 * i);
      EXPECT_EQ(long_received.value(), other + 100);
      EXPECT_EQ(all.finish(), TANDEM_OK) << me.error.text;
      const tandem_call plain = me.call();
      tandem_op* ops[2] = {};
      EXPECT_EQ(tandem_send(me.world, sent.buffer(), other, 0, &plain, &ops[0], &me.error),
                TANDEM_OK);
      EXPECT_EQ(tandem_recv(me.world, received.buffer(), other, 0, &plain, &ops[1], &me.error),
                TANDEM_OK);
      for (tandem_op* const each : ops) EXPECT_EQ(me.finish(each), TANDEM_OK) << me.error.text;
      EXPECT_EQ(received.value(), other + 2 * i);
    }
  });
  EXPECT_GE(jobs.launches(), 2 * 10U);
}

/// Whatever a program does behind them, as to load a kernel.
TEST_P(KernelCalls, NeedNoDriver) {
  kernel_jobs jobs({0, 1}, GetParam());
  std::barrier<> both(2);
  jobs.run([&](device_rank& me) {
    filled_bytes sent(me, 200'000), received(me, 200'000);
    for (int i = 0; i < 2; ++i) ring_step(me, sent, received, i);
    sent.fill(me.rank + 50);
    standing_stream blocked(*me.gpu);
    blocked.hold(me.stream.get());
    stream_group all(me);
    all.receive(received.buffer(), 1 - me.rank);
    all.send(sent.buffer(), 1 - me.rank);
    EXPECT_EQ(all.launch(), TANDEM_OK) << me.error.text;
    both.arrive_and_wait();
    std::shared_ptr<void> locked;
    if (me.rank == 0) locked = jobs.gpus.gpus.lock_driver();
    both.arrive_and_wait();
    blocked.release();
    EXPECT_EQ(all.finish(), TANDEM_OK) << me.error.text;
    both.arrive_and_wait();
    locked.reset();
    both.arrive_and_wait();
    EXPECT_EQ(received.value(), 51 - me.rank);
  });
}

/// On streams of Tandem's own, a receive before the send.
TEST(RelayedCalls, BesideTheCallersStream) {
  kernel_jobs jobs({0, 1}, kernel_way::relayed);
  jobs.run([](device_rank& me) {
    const int other = 1 - me.rank;
    filled_bytes sent(me, 200'000), received(me, 200'000);
    for (int i = 0; i < 8; ++i) {
      sent.fill(20 * me.rank + i);
      tandem_call call = me.call();
      call.in_stream = 2;
      tandem_op* ops[2] = {};
      EXPECT_EQ(tandem_recv(me.world, received.buffer(), other, 0, &call, &ops[0], &me.error),
                TANDEM_OK);
      EXPECT_EQ(tandem_send(me.world, sent.buffer(), other, 0, &call, &ops[1], &me.error),
                TANDEM_OK);
      for (tandem_op* const each : ops) EXPECT_EQ(me.finish(each), TANDEM_OK) << me.error.text;
      EXPECT_EQ(received.value(), 20 * other + i);
    }
  });
  EXPECT_GE(jobs.launches(), 2 * 2 * 7U);
}

/// As a pipeline of two stages: a group for each direction, and two receives that are called before
/// they are needed. The caller's stream waits for all.
void run_pipeline(device_rank& me, std::size_t bytes, int micro_batches) {
  tandem_comm* groups[2] = {};
  for (tandem_comm*& each : groups) {
    ASSERT_EQ(tandem_comm_split(me.world, 0, me.rank, &each, &me.error), TANDEM_OK)
        << me.error.text;
  }
  const int other = 1 - me.rank;
  tandem_comm* const out = groups[me.rank];
  tandem_comm* const in = groups[other];
  std::vector<std::unique_ptr<filled_bytes>> sent, received;
  std::vector<tandem_op*> sends, receives;
  tandem_call call = me.call();
  call.in_stream = 2;
  const auto receive = [&] {
    if (static_cast<int>(received.size()) == micro_batches) return;
    received.push_back(std::make_unique<filled_bytes>(me, bytes));
    tandem_op* op = nullptr;
    EXPECT_EQ(tandem_recv(in, received.back()->buffer(), other, 0, &call, &op, &me.error),
              TANDEM_OK);
    receives.push_back(op);
  };
  const auto take = [&](int which) {
    EXPECT_EQ(tandem_op_wait_stream(receives[static_cast<std::size_t>(which)], me.stream.get(),
                                    &me.error),
              TANDEM_OK)
        << me.error.text;
    receive();
  };
  const auto send = [&](int which) {
    sent.push_back(std::make_unique<filled_bytes>(me, bytes));
    sent.back()->fill(40 * me.rank + which);
    tandem_op* op = nullptr;
    EXPECT_EQ(tandem_send(out, sent.back()->buffer(), other, 0, &call, &op, &me.error), TANDEM_OK);
    sends.push_back(op);
  };
  receive();
  receive();
  if (me.rank == 0) send(0);
  for (int m = 0; m < micro_batches; ++m) {
    if (me.rank == 0 && m + 1 < micro_batches) send(m + 1);
    take(m);
    if (me.rank == 1) send(m);
  }
  for (tandem_op* const each : sends) EXPECT_EQ(me.finish(each), TANDEM_OK) << me.error.text;
  for (int m = 0; m < micro_batches; ++m) {
    EXPECT_EQ(received[static_cast<std::size_t>(m)]->value(), 40 * other + m);
  }
  for (tandem_op* const each : receives) tandem_op_release(each);
  for (tandem_comm* const each : groups) tandem_comm_destroy(each);
}

TEST(RelayedCalls, OfAPipeline) {
  for (const char* const streams_wait : {"0", "1"}) {
    for (const std::size_t bytes : {1000, 2'000'000}) {
      SCOPED_TRACE(testing::Message() << bytes << " bytes, stream-waits " << streams_wait);
      kernel_jobs jobs({0, 1}, kernel_way::relayed);
      jobs.settings = {"stream-waits", streams_wait};
      jobs.run([bytes](device_rank& me) { run_pipeline(me, bytes, 8); }, "1G");
      EXPECT_GE(jobs.launches(), 2 * 2 * 8U);
    }
  }
}

/// Between a GPU of NVIDIA and one of AMD.
TEST(RelayedCalls, BetweenVendors) {
  kernel_jobs jobs({0, 1}, kernel_way::relayed, 1);
  jobs.run([](device_rank& me) {
    filled_bytes sent(me, 200'000), received(me, 200'000);
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(ring_step(me, sent, received, 20 * me.rank + i), 20 * (1 - me.rank) + i);
    }
    stream_group one(me);
    sent.fill(me.rank + 3);
    one.all_reduce(sent.buffer(), received.buffer(), {TANDEM_UINT8, TANDEM_SUM, 1});
    EXPECT_EQ(one.launch(), TANDEM_OK) << me.error.text;
    EXPECT_EQ(received.value(), 7);
    EXPECT_EQ(one.finish(), TANDEM_OK) << me.error.text;
  });
  EXPECT_GE(jobs.launches(), 2 * (8 + 2U));
}

/// A rank may allow fewer bytes, or none.
TEST_P(KernelCalls, NoneWhereOneRankHasNone) {
  kernel_jobs jobs({0, 1}, GetParam());
  jobs.run(
      [](device_rank& me) {
        filled_bytes sent(me, 3000), received(me, 3000);
        for (int i = 0; i < 4; ++i) EXPECT_EQ(ring_step(me, sent, received, i), i);
      },
      "0");
  EXPECT_EQ(jobs.launches(), 0U);
}

TEST_P(KernelCalls, WithoutACompilerByCopyEngines) {
  kernel_jobs jobs({0, 1}, GetParam());
  jobs.gpus.compiler.fail("no such type");
  jobs.run([](device_rank& me) {
    filled_bytes sent(me, 3000), received(me, 3000);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(ring_step(me, sent, received, i), i);
  });
  EXPECT_EQ(jobs.launches(), 0U);
}

TEST_P(KernelCalls, DifferentLengthsAreNamed) {
  kernel_jobs jobs({0, 1}, GetParam());
  jobs.run([](device_rank& me) {
    filled_bytes sent(me, 3000), received(me, 3000);
    for (int i = 0; i < 2; ++i) ring_step(me, sent, received, i);
    stream_group one(me);
    if (me.rank == 0) {
      one.send(sent.buffer(), 1);
      one.launch();
      // The peer ends the job.
      stream_group never(me);
      never.receive(received.buffer(), 1);
      never.launch();
      EXPECT_NE(never.finish(), TANDEM_OK);
      one.finish();
    } else {
      one.receive(received.part(2000), 0);
      one.launch();
      EXPECT_EQ(one.finish(), TANDEM_ERR_CALL_MISMATCH) << me.error.text;
      for (const char* const word : {"rank 0", "3000 bytes", "2000", "same count"}) {
        EXPECT_NE(std::string(me.error.text).find(word), std::string::npos) << me.error.text;
      }
    }
  });
}

TEST_P(KernelCalls, AnAbortLetsTheStreamsGo) {
  kernel_jobs jobs({0, 1}, GetParam());
  std::barrier<> through(2);
  jobs.run([&through](device_rank& me) {
    filled_bytes sent(me, 3000), received(me, 3000);
    for (int i = 0; i < 2; ++i) ring_step(me, sent, received, i);
    through.arrive_and_wait();
    if (me.rank == 1) {
      tandem_job_abort(me.job, "for a test");
      return;
    }
    stream_group never(me);
    never.receive(received.buffer(), 1);
    never.launch();
    EXPECT_EQ(never.finish(), TANDEM_ERR_PEER_LOST) << me.error.text;
    EXPECT_NE(std::string(me.error.text).find("rank 1 has aborted: for a test"), std::string::npos)
        << me.error.text;
    me.gpu->finish(me.stream.get());
    stream_group late(me);
    late.send(sent.buffer(), 1);
    late.launch();
    EXPECT_EQ(late.finish(), TANDEM_ERR_PEER_LOST) << me.error.text;
  });
}

TEST_P(KernelCalls, APeerThatDoesNotCallIsATimeout) {
  kernel_jobs jobs({0, 1}, GetParam());
  jobs.run([](device_rank& me) {
    filled_bytes sent(me, 3000), received(me, 3000);
    for (int i = 0; i < 2; ++i) ring_step(me, sent, received, i);
    if (me.rank == 0) {
      stream_group never(me);
      never.limit_ms = 300;
      never.receive(received.buffer(), 1);
      never.launch();
      EXPECT_EQ(never.finish(), TANDEM_ERR_TIMED_OUT) << me.error.text;
      EXPECT_NE(std::string(me.error.text).find("has not made the same call"), std::string::npos)
          << me.error.text;
      me.gpu->finish(me.stream.get());
    } else {
      tandem_op* op = nullptr;
      const tandem_buffer nothing{};
      EXPECT_EQ(tandem_recv(me.world, nothing, 0, 3, nullptr, &op, &me.error), TANDEM_OK);
      EXPECT_EQ(tandem_op_wait(op, 20000, &me.error), TANDEM_ERR_TIMED_OUT) << me.error.text;
      tandem_op_release(op);
    }
  });
}

/// A job that ends waits for it no longer than its time limit, as for calls of a vendor's library.
TEST_P(KernelCalls, AReceiveThatNobodySends) {
  kernel_jobs jobs({0, 1}, GetParam());
  const auto begun = std::chrono::steady_clock::now();
  std::atomic<int> waiting{0};
  jobs.run([&waiting](device_rank& me) {
    filled_bytes sent(me, 3000), received(me, 3000);
    for (int i = 0; i < 2; ++i) ring_step(me, sent, received, i);
    stream_group never(me);
    never.limit_ms = 300;
    never.receive(received.buffer(), 1 - me.rank);
    never.launch();
    for (++waiting; waiting < 2;) std::this_thread::yield();
    tandem_job_destroy(std::exchange(me.job, nullptr));
    EXPECT_NE(never.finish(), TANDEM_OK);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
}

TEST_P(KernelCalls, ACaptureIsRefused) {
  kernel_jobs jobs({0, 1}, GetParam());
  jobs.run([&jobs](device_rank& me) {
    filled_bytes sent(me, 3000), received(me, 3000);
    for (int i = 0; i < 2; ++i) ring_step(me, sent, received, i);
    jobs.gpus.gpus.capture(static_cast<detail::cu::stream>(me.stream.get()), true);
    tandem_call call = me.call();
    call.in_stream = 1;
    tandem_op* op = nullptr;
    EXPECT_EQ(tandem_send(me.world, sent.buffer(), 1 - me.rank, 0, &call, &op, &me.error),
              TANDEM_ERR_BAD_INPUT);
    jobs.gpus.gpus.capture(static_cast<detail::cu::stream>(me.stream.get()), false);
    EXPECT_EQ(ring_step(me, sent, received, 7), 7);
  });
}

}  // namespace
}  // namespace tandem::test
