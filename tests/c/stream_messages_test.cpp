// Messages between islands of one host, which copy engines carry out in the order of streams,
// through the C interface.
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <memory>
#include <tandem/detail/deferred_calls.hpp>
#include <thread>

#include "c/device_bytes.hpp"
#include "c/device_job.hpp"
#include "c/device_messages.hpp"
#include "support/expected_log.hpp"

namespace tandem::test {
namespace {

/// The first messages go over channels, until the memory is mapped.
TEST(StreamMessages, InARing) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{3} << 20}) {
    device_jobs jobs({0, 1, 2});
    jobs.separate_islands();
    jobs.run([bytes](device_rank& me) {
      const int next = (me.rank + 1) % me.ranks, before = (me.rank + 2) % me.ranks;
      filled_bytes sent(me, bytes), received(me, bytes);
      for (int i = 0; i < 12; ++i) {
        sent.fill(20 * me.rank + i);
        tandem_op* const out = send(me, sent.buffer(), next);
        tandem_op* const in = receive(me, received.buffer(), before);
        EXPECT_EQ(tandem_op_wait(in, 20000, &me.error), TANDEM_OK) << me.error.text;
        EXPECT_EQ(tandem_op_source(in), before);
        EXPECT_EQ(tandem_op_bytes(in), bytes);
        EXPECT_EQ(me.finish(out), TANDEM_OK) << me.error.text;
        EXPECT_EQ(me.finish(in), TANDEM_OK) << me.error.text;
        EXPECT_EQ(received.value(), 20 * before + i) << i;
      }
    });
    EXPECT_GE(jobs.gpus.gpus.calls("cuStreamWaitValue32"), 2 * 3 * 6U) << bytes;
    EXPECT_EQ(jobs.library.calls("ncclSend"), 0);
  }
}

/// The processor of the sender is not held up, and streams keep the order.
TEST(StreamMessages, QueuedAheadOfTheWork) {
  device_jobs jobs({0, 1});
  jobs.separate_islands();
  jobs.run([](device_rank& me) {
    constexpr std::size_t bytes = 70000;
    filled_bytes sent(me, bytes), received(me, bytes), last(me, bytes);
    for (int i = 0; i < 3; ++i) exchange(me, sent, received);
    for (int i = 0; i < 200; ++i) {
      if (me.rank == 0) {
        sent.fill(i);
        EXPECT_EQ(me.finish(send(me, sent.buffer(), 1)), TANDEM_OK) << me.error.text;
      } else {
        EXPECT_EQ(me.finish(receive(me, received.buffer(), 0)), TANDEM_OK) << me.error.text;
        if (i == 150) {
          me.gpu->copy(const_cast<void*>(last.buffer().data), received.buffer().data, bytes,
                       me.stream.get());
        }
      }
    }
    if (me.rank == 1) {
      EXPECT_EQ(received.value(), 199);
      EXPECT_EQ(last.value(), 150);
    }
  });
  EXPECT_GE(jobs.gpus.gpus.calls("cuStreamWaitValue32"), 400U);
}

/// More in flight than there are words, behind a stream that stands still.
TEST(StreamMessages, MoreThanThereAreWords) {
  device_jobs jobs({0, 1});
  jobs.separate_islands();
  jobs.run([](device_rank& me) {
    filled_bytes sent(me, 64), received(me, 64);
    for (int i = 0; i < 3; ++i) exchange(me, sent, received);
    standing_stream blocked(*me.gpu);
    blocked.hold(me.stream.get());
    std::vector<tandem_op*> all;
    for (int i = 0; i < 150; ++i) {
      all.push_back(me.rank == 0 ? send(me, sent.buffer(), 1) : receive(me, received.buffer(), 0));
    }
    EXPECT_EQ(tandem_op_wait(all.front(), 20, &me.error), TANDEM_IN_PROGRESS);
    blocked.release();
    for (tandem_op* const each : all) EXPECT_EQ(wait_and_release(me, each), TANDEM_OK);
    me.gpu->finish(me.stream.get());
  });
}

TEST(StreamMessages, LengthsAndKinds) {
  device_jobs jobs({0, 1});
  jobs.separate_islands();
  jobs.run([](device_rank& me) {
    constexpr std::size_t bytes = 1000;
    filled_bytes sent(me, bytes), received(me, bytes);
    for (int i = 0; i < 3; ++i) exchange(me, sent, received);
    // Shorter than the view, and none at all.
    for (const std::size_t length : {std::size_t{300}, std::size_t{0}, std::size_t{1}}) {
      if (me.rank == 0) {
        sent.fill(7);
        EXPECT_EQ(me.finish(send(me, sent.part(length), 1)), TANDEM_OK) << me.error.text;
      } else {
        received.fill(9);
        tandem_op* const in = receive(me, received.buffer(), 0);
        EXPECT_EQ(tandem_op_wait(in, 20000, &me.error), TANDEM_OK) << me.error.text;
        EXPECT_EQ(tandem_op_bytes(in), length);
        tandem_op_release(in);
        if (length > 0) {
          EXPECT_EQ(received.value(length), 7);
        }
      }
    }
    // Longer: an error of the receive alone.
    if (me.rank == 0) {
      EXPECT_EQ(me.finish(send(me, sent.buffer(), 1)), TANDEM_OK) << me.error.text;
    } else {
      EXPECT_EQ(wait_and_release(me, receive(me, received.part(10), 0)),
                TANDEM_ERR_MESSAGE_TRUNCATED)
          << me.error.text;
    }
    exchange(me, sent, received);
    // Host memory has an order of its own.
    float one = static_cast<float>(me.rank), other = -1;
    const tandem_buffer mine{&one, sizeof one, TANDEM_HOST, 0};
    const tandem_buffer theirs{&other, sizeof other, TANDEM_HOST, 0};
    tandem_op* both[2] = {};
    tandem_op* const on_device = send(me, sent.buffer(), 1 - me.rank);
    EXPECT_EQ(tandem_send(me.world, mine, 1 - me.rank, 0, nullptr, &both[0], &me.error), TANDEM_OK);
    EXPECT_EQ(tandem_recv(me.world, theirs, 1 - me.rank, 0, nullptr, &both[1], &me.error),
              TANDEM_OK);
    for (tandem_op* const each : both) EXPECT_EQ(wait_and_release(me, each), TANDEM_OK);
    EXPECT_EQ(other, static_cast<float>(1 - me.rank));
    EXPECT_EQ(me.finish(receive(me, received.buffer(), 1 - me.rank)), TANDEM_OK);
    EXPECT_EQ(me.finish(on_device), TANDEM_OK);
  });
}

/// Memory that was freed and allocated again is mapped again.
TEST(StreamMessages, NewMemory) {
  device_jobs jobs({0, 1});
  jobs.separate_islands();
  jobs.run([](device_rank& me) {
    for (int turn = 0; turn < 8; ++turn) {
      filled_bytes sent(me, 3000), received(me, 3000);
      for (int i = 0; i < 3; ++i) exchange(me, sent, received);
    }
  });
}

TEST(StreamMessages, WithoutTheVendorsLibrary) {
  device_jobs jobs({0, 1});
  jobs.run(
      [](device_rank& me) {
        filled_bytes sent(me, 3000), received(me, 3000);
        for (int i = 0; i < 4; ++i) exchange(me, sent, received);
      },
      {"vendor-library", "0", nullptr});
  EXPECT_GT(jobs.gpus.gpus.calls("cuStreamWaitValue32"), 0U);
  EXPECT_EQ(jobs.library.calls("ncclSend"), 0);
}

TEST(StreamMessages, WithoutPeerCopiesByChannels) {
  device_jobs jobs({0, 1});
  jobs.separate_islands();
  jobs.run(
      [](device_rank& me) {
        filled_bytes sent(me, 3000), received(me, 3000);
        for (int i = 0; i < 4; ++i) exchange(me, sent, received);
      },
      {"peer-copies", "0", nullptr});
  EXPECT_EQ(jobs.gpus.gpus.calls("cuStreamWaitValue32"), 0U);
}

/// As by a graph of PyTorch's: in progress meanwhile, calls go on.
TEST(StreamMessages, WhileAnotherThreadCaptures) {
  device_jobs jobs({0, 1});
  jobs.separate_islands();
  jobs.run([&jobs](device_rank& me) {
    filled_bytes sent(me, 3000), received(me, 3000);
    const device_stream captured(*me.gpu);
    jobs.gpus.gpus.capture(static_cast<detail::cu::stream>(captured.get()), true);
    for (int i = 0; i < 4; ++i) exchange(me, sent, received);
    jobs.gpus.gpus.capture(static_cast<detail::cu::stream>(captured.get()), false);
  });
}

TEST(StreamMessages, AnAbortLetsTheStreamsGo) {
  device_jobs jobs({0, 1});
  jobs.separate_islands();
  std::barrier<> through(2);
  std::atomic<bool> is_over{false};
  jobs.run([&](device_rank& me) {
    filled_bytes sent(me, 3000), received(me, 3000);
    for (int i = 0; i < 3; ++i) exchange(me, sent, received);
    through.arrive_and_wait();
    if (me.rank == 1) {
      standing_stream blocked(*me.gpu);
      // Both have called, but this rank's view is not ready.
      tandem_call call = me.call();
      call.stream = blocked.get();
      tandem_op* in = nullptr;
      EXPECT_EQ(tandem_recv(me.world, received.buffer(), 0, 0, &call, &in, &me.error), TANDEM_OK);
      EXPECT_EQ(tandem_op_wait_stream(in, me.stream.get(), &me.error), TANDEM_OK);
      tandem_job_abort(me.job, "for a test");
      EXPECT_EQ(wait_and_release(me, in), TANDEM_ERR_PEER_LOST) << me.error.text;
      while (!is_over) std::this_thread::yield();
      blocked.release();  // behind which the receive is, and `stream` behind that
      me.gpu->finish(me.stream.get());
      return;
    }
    tandem_op* const out = send(me, sent.buffer(), 1);
    EXPECT_EQ(tandem_op_wait(out, 20000, &me.error), TANDEM_ERR_PEER_LOST) << me.error.text;
    EXPECT_NE(std::string(me.error.text).find("rank 1 has aborted: for a test"), std::string::npos)
        << me.error.text;
    tandem_op_release(out);
    me.gpu->finish(me.stream.get());
    is_over = true;
    tandem_op* const late = send(me, sent.buffer(), 1);
    EXPECT_EQ(wait_and_release(me, late), TANDEM_ERR_PEER_LOST) << me.error.text;
  });
}

TEST(StreamMessages, APeerThatDoesNotCallIsATimeout) {
  device_jobs jobs({0, 1});
  jobs.separate_islands();
  jobs.run([](device_rank& me) {
    filled_bytes sent(me, 3000), received(me, 3000);
    for (int i = 0; i < 3; ++i) exchange(me, sent, received);
    tandem_op* op = nullptr;
    if (me.rank == 0) {
      tandem_call call = me.call();
      call.timeout_ms = 300;
      EXPECT_EQ(tandem_send(me.world, sent.buffer(), 1, 0, &call, &op, &me.error), TANDEM_OK);
      EXPECT_EQ(tandem_op_wait(op, 20000, &me.error), TANDEM_ERR_TIMED_OUT) << me.error.text;
      EXPECT_NE(std::string(me.error.text).find("the peer has not called the receive"),
                std::string::npos)
          << me.error.text;
    } else {
      const tandem_buffer nothing{};
      EXPECT_EQ(tandem_recv(me.world, nothing, 0, 3, nullptr, &op, &me.error), TANDEM_OK);
      EXPECT_EQ(tandem_op_wait(op, 20000, &me.error), TANDEM_ERR_TIMED_OUT) << me.error.text;
    }
    tandem_op_release(op);
  });
}

/// What is queued and held up by a stream is late, too.
TEST(StreamMessages, AStreamThatStandsStillIsATimeout) {
  device_jobs jobs({0, 1});
  jobs.separate_islands();
  std::atomic<int> over{0};
  jobs.run([&over](device_rank& me) {
    filled_bytes sent(me, 3000), received(me, 3000);
    for (int i = 0; i < 3; ++i) exchange(me, sent, received);
    standing_stream blocked(*me.gpu);
    tandem_call call = me.call();
    call.timeout_ms = 300;
    if (me.rank == 1) call.stream = blocked.get();
    tandem_op* op = nullptr;
    if (me.rank == 0) {
      EXPECT_EQ(tandem_send(me.world, sent.buffer(), 1, 0, &call, &op, &me.error), TANDEM_OK);
    } else {
      EXPECT_EQ(tandem_recv(me.world, received.buffer(), 0, 0, &call, &op, &me.error), TANDEM_OK);
    }
    EXPECT_EQ(wait_and_release(me, op), TANDEM_ERR_TIMED_OUT) << me.error.text;
    for (++over; over < 2;) std::this_thread::yield();
    me.gpu->finish(me.stream.get());
  });
}

/// Closing memory of other processes waits for all streams, in the driver: not while one waits for
/// a peer, and soon when none does.
TEST(StreamMessages, MemoryIsClosedWhenNoStreamWaits) {
  device_jobs jobs({0, 1});
  jobs.separate_islands();
  std::atomic<bool> is_posted{false};
  jobs.run([&](device_rank& me) {
    filled_bytes sent(me, 3000), received(me, 3000);
    for (int i = 0; i < 3; ++i) exchange(me, sent, received);
    if (me.rank == 0) {
      tandem_op* const in = receive(me, received.buffer(), 1);
      const auto is_closed = std::make_shared<std::atomic<bool>>(false);
      tandem::detail::deferred_calls::of_process().make([is_closed] { *is_closed = true; });
      EXPECT_EQ(tandem_op_wait(in, 50, &me.error), TANDEM_IN_PROGRESS);
      EXPECT_FALSE(*is_closed);
      is_posted = true;
      EXPECT_EQ(tandem_op_wait_stream(in, me.stream.get(), &me.error), TANDEM_OK);
      tandem_op_release(in);  // complete without a caller who looks
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!*is_closed && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
      EXPECT_TRUE(*is_closed);
    } else {
      while (!is_posted) std::this_thread::yield();
      EXPECT_EQ(me.finish(send(me, sent.buffer(), 0)), TANDEM_OK) << me.error.text;
    }
  });
}

/// A job that ends does not wait for it.
TEST(StreamMessages, AReceiveThatNobodySends) {
  device_jobs jobs({0, 1});
  jobs.separate_islands();
  const auto begun = std::chrono::steady_clock::now();
  std::atomic<int> waiting{0};
  jobs.run([&waiting](device_rank& me) {
    filled_bytes sent(me, 3000), received(me, 3000);
    for (int i = 0; i < 3; ++i) exchange(me, sent, received);
    tandem_op* const never = receive(me, received.buffer(), 1 - me.rank);
    EXPECT_EQ(tandem_op_wait(never, 50, &me.error), TANDEM_IN_PROGRESS);
    for (++waiting; waiting < 2;) std::this_thread::yield();
    tandem_job_destroy(std::exchange(me.job, nullptr));
    const tandem_status ended = wait_and_release(me, never);  // perhaps by the other's leave
    EXPECT_TRUE(ended == TANDEM_ERR_CANCELLED || ended == TANDEM_ERR_PEER_CLOSED) << me.error.text;
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
}

TEST(StreamMessages, ADestroyedCommunicatorEndsThem) {
  device_jobs jobs({0, 1});
  jobs.separate_islands();
  jobs.run([](device_rank& me) {
    tandem_comm* part = nullptr;
    ASSERT_EQ(tandem_comm_split(me.world, 0, 0, &part, &me.error), TANDEM_OK) << me.error.text;
    filled_bytes sent(me, 3000), received(me, 3000);
    for (int i = 0; i < 3; ++i) exchange(me, sent, received);
    const tandem_call call = me.call();
    const auto in_part = [&](auto what, const filled_bytes& with) {
      tandem_op* op = nullptr;
      EXPECT_EQ(what(part, with.buffer(), 1 - me.rank, 0, &call, &op, &me.error), TANDEM_OK);
      return op;
    };
    tandem_op* const out = in_part(tandem_send, sent);
    EXPECT_EQ(wait_and_release(me, in_part(tandem_recv, received)), TANDEM_OK) << me.error.text;
    EXPECT_EQ(wait_and_release(me, out), TANDEM_OK) << me.error.text;
    std::vector<tandem_op*> never;
    for (int i = 0; i < 3; ++i) never.push_back(in_part(tandem_recv, received));
    tandem_comm_destroy(part);
    for (tandem_op* const each : never) {
      EXPECT_NE(wait_and_release(me, each), TANDEM_OK) << me.error.text;
    }
    exchange(me, sent, received);
  });
}

}  // namespace
}  // namespace tandem::test
