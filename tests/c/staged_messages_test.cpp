// Messages between devices that channels carry, by way of pinned memory in the order of streams,
// through the C interface.
#include <atomic>
#include <chrono>

#include "c/staged_jobs.hpp"

namespace tandem::test {
namespace {

/// A message of floats.
tandem_op* move(device_rank& me, const tandem_buffer& what, int peer, bool is_send, bool in_stream,
                tandem_batch* together = nullptr) {
  tandem_call call = me.call(together);
  call.in_stream = in_stream ? 1 : 0;
  tandem_op* op = nullptr;
  const tandem_status started = is_send
                                    ? tandem_send(me.world, what, peer, 0, &call, &op, &me.error)
                                    : tandem_recv(me.world, what, peer, 0, &call, &op, &me.error);
  EXPECT_EQ(started, TANDEM_OK) << me.error.text;
  return op;
}

/// On one stream, without waiting for each other; around the limit. Between devices of one vendor
/// that reach each other copy engines carry them.
TEST(StagedMessages, InARing) {
  for (const bool in_stream : {false, true}) {
    staged_jobs jobs({0, 1, 0, 1}, 2);
    jobs.run([&](device_rank& me) {
      const int next = (me.rank + 1) % me.ranks, before = (me.rank + 3) % me.ranks;
      for (const std::size_t count : {std::size_t{1}, std::size_t{16'384}, std::size_t{16'385}}) {
        for (int i = 0; i < 4; ++i) {
          device_numbers sent(me, filled(count, static_cast<float>(10 * me.rank + i)));
          device_numbers received(me, filled(count, -1));
          tandem_batch* const together = tandem_batch_create();
          tandem_op* const in = move(me, received.buffer(), before, false, in_stream, together);
          tandem_op* const out = move(me, sent.buffer(), next, true, in_stream, together);
          EXPECT_EQ(tandem_batch_launch(together, &me.error), TANDEM_OK);
          EXPECT_EQ(tandem_op_wait_stream(in, me.stream.get(), &me.error), TANDEM_OK);
          EXPECT_EQ(me.finish(out), TANDEM_OK) << me.error.text;
          EXPECT_EQ(received.get(), filled(count, static_cast<float>(10 * before + i)));
          EXPECT_EQ(tandem_op_wait(in, 20000, &me.error), TANDEM_OK) << me.error.text;
          EXPECT_EQ(tandem_op_bytes(in), count * sizeof(float));
          EXPECT_EQ(tandem_op_source(in), before);
          tandem_op_release(in);
          tandem_batch_destroy(together);
          sent.finish();
        }
      }
    });
  }
}

/// A send needs no answer, a receive no sender: many are queued before the peer calls.
TEST(StagedMessages, WithoutThePeer) {
  for (const int first : {0, 1}) {
    for (const bool in_stream : {false, true}) {
      std::atomic<bool> is_queued{false};
      staged_jobs jobs({0, 1}, 1);
      jobs.run([&](device_rank& me) {
        constexpr std::size_t count = 50;
        device_numbers data(me, filled(count, me.rank == 0 ? 7 : -1));
        const auto one = [&](std::size_t i) {
          tandem_op* const op = move(me, data.part(i, 1), 1 - me.rank, me.rank == 0, in_stream);
          EXPECT_EQ(me.finish(op), TANDEM_OK) << me.error.text;
        };
        one(0);
        if (me.rank != first) {
          while (!is_queued) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        for (std::size_t i = 1; i < count; ++i) one(i);
        if (me.rank == first) is_queued = true;
        EXPECT_EQ(data.get(), filled(count, 7));
      });
    }
  }
}

/// What lies behind a message that is shorter than the view is not touched; one that is longer is
/// an error of the receive.
TEST(StagedMessages, OfOtherLengths) {
  staged_jobs jobs({0, 1}, 1);
  jobs.run([](device_rank& me) {
    device_numbers data(me, filled(9, static_cast<float>(me.rank)));
    EXPECT_EQ(me.finish(move(me, data.part(0, 2), 1 - me.rank, me.rank == 0, false)), TANDEM_OK);
    for (const bool in_stream : {false, true}) {
      const std::size_t count = me.rank == 0 ? 4 : 8;
      tandem_op* const op = move(me, data.part(0, count), 1 - me.rank, me.rank == 0, in_stream);
      EXPECT_EQ(tandem_op_wait_stream(op, me.stream.get(), &me.error), TANDEM_OK);
      EXPECT_EQ(tandem_op_wait(op, 20000, &me.error), TANDEM_OK) << me.error.text;
      if (me.rank == 1) {
        EXPECT_EQ(tandem_op_bytes(op), 4 * sizeof(float));
        EXPECT_EQ(data.get(), (numbers{0, 0, 0, 0, 1, 1, 1, 1, 1}));
      }
      tandem_op_release(op);
    }
    tandem_op* const op =
        move(me, data.part(0, me.rank == 0 ? 4 : 3), 1 - me.rank, me.rank == 0, true);
    tandem_op_wait_stream(op, me.stream.get(), &me.error);
    EXPECT_EQ(tandem_op_wait(op, 20000, &me.error),
              me.rank == 0 ? TANDEM_OK : TANDEM_ERR_MESSAGE_TRUNCATED)
        << me.error.text;
    tandem_op_release(op);
    data.finish();
  });
}

}  // namespace
}  // namespace tandem::test
