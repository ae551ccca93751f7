// Batches of messages that kernels carry out.
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <thread>

#include "c/kernel_jobs.hpp"

namespace tandem::test {
namespace {

class KernelBatches : public KernelWays {};
INSTANTIATE_TEST_SUITE_P(Ways, KernelBatches,
                         testing::Values(kernel_way::direct, kernel_way::relayed), name_of_way);

/// Starts a message each way, to be launched together.
std::array<tandem_op*, 2> start_both(device_rank& me, tandem_batch* batch, const filled_bytes& sent,
                                     const filled_bytes& received) {
  tandem_call call = me.call(batch);
  call.in_stream = 1;
  std::array<tandem_op*, 2> ops{};
  const int other = 1 - me.rank;
  EXPECT_EQ(tandem_send(me.world, sent.buffer(), other, 0, &call, &ops[0], &me.error), TANDEM_OK);
  EXPECT_EQ(tandem_recv(me.world, received.buffer(), other, 0, &call, &ops[1], &me.error),
            TANDEM_OK);
  return ops;
}

/// Neither the messages before it nor those behind it are affected.
TEST_P(KernelBatches, ThatAreNotLaunched) {
  kernel_jobs jobs({0, 1}, GetParam());
  jobs.run([](device_rank& me) {
    const int other = 1 - me.rank;
    filled_bytes sent(me, 3000), received(me, 3000);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(ring_step(me, sent, received, me.rank + i), other + i);
    tandem_batch* const batch = tandem_batch_create();
    const auto ops = start_both(me, batch, sent, received);
    EXPECT_EQ(tandem_op_wait(ops[0], 0, &me.error), TANDEM_ERR_BAD_INPUT) << me.error.text;
    tandem_batch_destroy(batch);
    for (tandem_op* const each : ops) {
      EXPECT_EQ(me.finish(each), TANDEM_ERR_CANCELLED) << me.error.text;
    }
    for (int i = 3; i < 6; ++i) EXPECT_EQ(ring_step(me, sent, received, me.rank + i), other + i);
  });
}

/// They are cancelled with the group, which a program may destroy meanwhile.
TEST_P(KernelBatches, OfAGroupThatIsDestroyed) {
  kernel_jobs jobs({0, 1}, GetParam());
  jobs.run([](device_rank& me) {
    filled_bytes sent(me, 3000), received(me, 3000);
    tandem_comm* const world = me.world;
    ASSERT_EQ(tandem_comm_split(world, 0, me.rank, &me.world, &me.error), TANDEM_OK);
    for (int i = 0; i < 3; ++i) ring_step(me, sent, received, i);
    sent.fill(40 + me.rank);
    tandem_batch* const batch = tandem_batch_create();
    const auto ops = start_both(me, batch, sent, received);
    tandem_comm_destroy(std::exchange(me.world, world));
    EXPECT_EQ(tandem_batch_launch(batch, &me.error), TANDEM_OK) << me.error.text;
    tandem_batch_destroy(batch);
    for (tandem_op* const each : ops) {
      EXPECT_EQ(me.finish(each), TANDEM_ERR_CANCELLED) << me.error.text;
    }
  });
}

/// Some are on their stream, and some, as those before GPUs are known to reach each other, on
/// another one: no launch waits for one behind it on both ranks.
TEST_P(KernelBatches, OnAndBesideTheirStream) {
  kernel_jobs jobs({0, 1}, GetParam());
  jobs.run([](device_rank& me) {
    const int other = 1 - me.rank;
    filled_bytes sent(me, 3000), more(me, 3000), received(me, 3000), last(me, 3000);
    // Relayed ones are by kernels in either way, direct ones only on the stream.
    const std::int32_t ways[2] = {1, GetParam() == kernel_way::relayed ? 2 : 1};
    for (int i = 0; i < 8; ++i) {
      sent.fill(10 * i + me.rank);
      more.fill(10 * i + 5 + me.rank);
      stream_group all(me);
      all.in_stream = ways[i % 2];
      all.send(sent.buffer(), other);
      all.receive(received.buffer(), other);
      all.in_stream = ways[(i + 1) % 2];
      all.send(more.buffer(), other);
      all.receive(last.buffer(), other);
      EXPECT_EQ(all.launch(), TANDEM_OK) << me.error.text;
      EXPECT_EQ(received.value(), 10 * i + other);
      EXPECT_EQ(last.value(), 10 * i + 5 + other);
      EXPECT_EQ(all.finish(), TANDEM_OK) << me.error.text;
    }
  });
}

/// Messages to one rank keep their order.
TEST_P(KernelBatches, OnSeveralStreams) {
  kernel_jobs jobs({0, 1}, GetParam());
  jobs.run([](device_rank& me) {
    const int other = 1 - me.rank;
    const device_stream second(*me.gpu);
    std::vector<std::unique_ptr<filled_bytes>> sent, received;
    for (int m = 0; m < 3; ++m) {
      sent.push_back(std::make_unique<filled_bytes>(me, 3000));
      received.push_back(std::make_unique<filled_bytes>(me, 3000));
    }
    for (int i = 0; i < 6; ++i) {
      stream_group all(me);
      for (int m = 0; m < 3; ++m) {
        const auto at = static_cast<std::size_t>(m);
        sent[at]->fill(20 * i + 2 * m + me.rank);
        me.gpu->finish(me.stream.get());
        const accelerator::stream on = m == 1 ? second.get() : me.stream.get();
        all.add_on(on, [&](const device_rank& of, auto... rest) {
          return tandem_send(of.world, sent[at]->buffer(), other, 0, rest...);
        });
        all.add_on(on, [&](const device_rank& of, auto... rest) {
          return tandem_recv(of.world, received[at]->buffer(), other, 0, rest...);
        });
      }
      EXPECT_EQ(all.launch(), TANDEM_OK) << me.error.text;
      me.gpu->finish(second.get());
      for (int m = 0; m < 3; ++m) {
        EXPECT_EQ(received[static_cast<std::size_t>(m)]->value(), 20 * i + 2 * m + other) << i;
      }
      EXPECT_EQ(all.finish(), TANDEM_OK) << me.error.text;
    }
  });
}

/// The driver's calls that free memory wait for all streams of the device: they are not made while
/// one waits for a peer, which may wait for this rank's loop.
TEST_P(KernelBatches, MemoryOfAGroupIsFreedWhenNoStreamWaits) {
  kernel_jobs jobs({0, 1}, GetParam());
  std::barrier both(2);
  jobs.run([&](device_rank& me) {
    const int other = 1 - me.rank;
    filled_bytes sent(me, 3000), received(me, 3000);
    for (int i = 0; i < 3; ++i) ring_step(me, sent, received, i);
    tandem_comm* const world = me.world;
    ASSERT_EQ(tandem_comm_split(world, 0, me.rank, &me.world, &me.error), TANDEM_OK);
    for (int i = 0; i < 3; ++i) ring_step(me, sent, received, i);
    tandem_comm* const group = std::exchange(me.world, world);
    stream_group waits(me);
    if (me.rank == 0) {
      waits.receive(received.buffer(), other);
      EXPECT_EQ(waits.launch(), TANDEM_OK) << me.error.text;
    }
    both.arrive_and_wait();
    const std::size_t before = jobs.gpus.gpus.open().device_bytes;
    both.arrive_and_wait();
    tandem_comm_destroy(group);
    both.arrive_and_wait();
    const auto freed = [&] { return before - jobs.gpus.gpus.open().device_bytes; };
    EXPECT_EQ(freed(), 0U);
    both.arrive_and_wait();
    if (me.rank == 1) {
      waits.send(sent.buffer(), other);
      EXPECT_EQ(waits.launch(), TANDEM_OK) << me.error.text;
    }
    EXPECT_EQ(waits.finish(), TANDEM_OK) << me.error.text;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (freed() == 0 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    EXPECT_GT(freed(), 0U);
    both.arrive_and_wait();
  });
}

/// What was received is known of each, though they are complete at once, and each is reported.
TEST_P(KernelBatches, AreOneOperation) {
  kernel_jobs jobs({0, 1}, GetParam());
  jobs.run([](device_rank& me) {
    const int other = 1 - me.rank;
    filled_bytes sent(me, 3000), received(me, 3000), less_sent(me, 40), less_received(me, 40);
    for (int i = 0; i < 3; ++i) ring_step(me, sent, received, i);
    tandem_batch* const batch = tandem_batch_create();
    const auto both = start_both(me, batch, sent, received);
    const auto less = start_both(me, batch, less_sent, less_received);
    const std::array ops{both[0], both[1], less[0], less[1]};
    EXPECT_EQ(tandem_batch_launch(batch, &me.error), TANDEM_OK) << me.error.text;
    tandem_batch_destroy(batch);
    std::atomic<int> reported{0};
    for (tandem_op* const each : ops) {
      const auto report = [](void* count, tandem_op*) { ++*static_cast<std::atomic<int>*>(count); };
      tandem_op_on_complete(each, report, &reported);
    }
    for (tandem_op* const each : ops) {
      EXPECT_EQ(each->state, ops[0]->state);
      EXPECT_EQ(tandem_op_wait(each, 20000, &me.error), TANDEM_OK) << me.error.text;
    }
    while (reported < 4) std::this_thread::yield();
    const std::size_t bytes[4] = {0, 3000, 0, 40};
    for (std::size_t k = 0; k < 4; ++k) {
      EXPECT_EQ(tandem_op_bytes(ops[k]), bytes[k]);
      EXPECT_EQ(tandem_op_source(ops[k]), k % 2 == 0 ? -1 : other);
      tandem_op_release(ops[k]);
    }
  });
}

}  // namespace
}  // namespace tandem::test
