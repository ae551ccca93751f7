// Collectives on device memory that channels carry, by way of pinned memory in the order of
// streams, through the C interface.
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>

#include "c/device_bytes.hpp"
#include "c/staged_jobs.hpp"

namespace tandem::test {
namespace {

/// Starts an all_reduce.
tandem_op* start_reducing(device_rank& me, const tandem_buffer& data, bool in_stream = false,
                          tandem_status expected = TANDEM_OK) {
  tandem_call call = me.call();
  call.in_stream = in_stream ? 1 : 0;
  tandem_op* op = nullptr;
  EXPECT_EQ(tandem_all_reduce(me.world, data, data, added, &call, &op, &me.error), expected)
      << me.error.text;
  return op;
}

/// The first collective finds out what the ranks can do.
void introduce(device_rank& me) {
  device_numbers data(me, filled(3, 1));
  EXPECT_EQ(me.finish(start_reducing(me, data.buffer())), TANDEM_OK) << me.error.text;
  EXPECT_EQ(data.get(), filled(3, static_cast<float>(me.ranks)));
}

/// On both sides of the limit, and in both ways.
TEST(StagedCalls, AllCollectives) {
  for (const bool in_stream : {false, true}) {
    staged_jobs jobs({0, 1, 2});
    jobs.run([in_stream](device_rank& me) {
      introduce(me);
      for (const std::size_t count : {std::size_t{1}, std::size_t{700}, std::size_t{30'000}}) {
        tandem_call call = me.call();
        call.in_stream = in_stream ? 1 : 0;
        tandem_op* op = nullptr;
        const auto ranks = static_cast<std::size_t>(me.ranks);
        const auto own = static_cast<float>(me.rank + 1);
        device_numbers mine(me, filled(count, own)), one(me, filled(count, 0));
        device_numbers all(me, filled(count * ranks, own)), blocks(me, filled(count * ranks, 0));
        const auto finish = [&](tandem_status started) {
          EXPECT_EQ(started, TANDEM_OK) << me.error.text;
          EXPECT_EQ(me.finish(op), TANDEM_OK) << me.error.text;
        };
        numbers in_order;
        for (int r = 1; r <= me.ranks; ++r) in_order.insert(in_order.end(), count, float(r));

        finish(
            tandem_all_reduce(me.world, mine.buffer(), one.buffer(), added, &call, &op, &me.error));
        EXPECT_EQ(one.get(), filled(count, 6));
        finish(tandem_all_gather(me.world, mine.buffer(), blocks.buffer(), nullptr, &call, &op,
                                 &me.error));
        EXPECT_EQ(blocks.get(), in_order);
        finish(tandem_reduce_scatter(me.world, all.buffer(), one.buffer(), nullptr, added, &call,
                                     &op, &me.error));
        EXPECT_EQ(one.get(), filled(count, 6));
        finish(tandem_all_to_all(me.world, all.buffer(), nullptr, blocks.buffer(), nullptr, &call,
                                 &op, &me.error));
        EXPECT_EQ(blocks.get(), in_order);
        for (int root = 0; root < me.ranks; ++root) {
          device_numbers data(me, filled(count, own));
          finish(tandem_broadcast(me.world, data.buffer(), root, &call, &op, &me.error));
          EXPECT_EQ(data.get(), filled(count, static_cast<float>(root + 1)));
          device_numbers sum(me, filled(count, 0)), gathered(me, filled(count * ranks, 0));
          finish(tandem_reduce(me.world, mine.buffer(), sum.buffer(), added, root, &call, &op,
                               &me.error));
          finish(tandem_gather(me.world, mine.buffer(), gathered.buffer(), nullptr, root, &call,
                               &op, &me.error));
          EXPECT_EQ(sum.get(), filled(count, me.rank == root ? 6 : 0));
          EXPECT_EQ(gathered.get(), me.rank == root ? in_order : filled(count * ranks, 0));
          finish(tandem_scatter(me.world, gathered.buffer(), one.buffer(), nullptr, root, &call,
                                &op, &me.error));
          EXPECT_EQ(one.get(), filled(count, own));
        }
      }
    });
  }
}

/// Neither the caller nor its stream's work waits for the other rank: hundreds of calls are queued
/// before that makes the first.
TEST(StagedCalls, TheCallerGoesOn) {
  for (const bool in_stream : {false, true}) {
    constexpr int calls = 100;
    std::atomic<bool> is_queued{false};
    staged_jobs jobs({0, 1});
    jobs.run([&](device_rank& me) {
      introduce(me);
      device_numbers data(me, filled(1000, 1));
      if (me.rank == 1) {
        while (!is_queued) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      for (int i = 0; i < calls; ++i) {
        EXPECT_EQ(
            me.finish(start_reducing(me, data.part(static_cast<std::size_t>(i), 1), in_stream)),
            TANDEM_OK)
            << me.error.text;
      }
      if (me.rank == 0) is_queued = true;
      numbers expected = filled(1000, 1);
      std::fill_n(expected.begin(), calls, 2.0F);
      EXPECT_EQ(data.get(), expected);
    });
  }
}

/// In the order of the stream, with its other work.
TEST(StagedCalls, KeepTheOrderOfTheStream) {
  for (const bool in_stream : {false, true}) {
    staged_jobs jobs({0, 1, 2});
    jobs.run([&](device_rank& me) {
      introduce(me);
      device_numbers data(me, filled(200, 1)), copy(me, filled(200, 0));
      for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(me.finish(start_reducing(me, data.buffer(), in_stream)), TANDEM_OK)
            << me.error.text;
        if (i == 2) {
          me.gpu->copy(copy.buffer().data, data.buffer().data, data.buffer().bytes,
                       me.stream.get());
        }
      }
      EXPECT_EQ(data.get(), filled(200, 243));
      EXPECT_EQ(copy.get(), filled(200, 27));
    });
  }
}

/// Longer calls need the driver: their caller waits for those that streams wait for, and the other
/// way round.
TEST(StagedCalls, BesideLongerOnes) {
  for (const bool in_stream : {false, true}) {
    staged_jobs jobs({0, 1});
    jobs.run([&](device_rank& me) {
      introduce(me);
      device_numbers shorter(me, filled(100, 1)), longer(me, filled(50'000, 1));
      std::vector<tandem_op*> all;
      for (int i = 0; i < 4; ++i) {
        all.push_back(start_reducing(me, longer.buffer(), in_stream));
        all.push_back(start_reducing(me, shorter.buffer(), in_stream));
        for (tandem_op* const each : all) EXPECT_EQ(me.finish(each), TANDEM_OK) << me.error.text;
        all.clear();
        EXPECT_EQ(me.finish(start_reducing(me, shorter.buffer(), in_stream)), TANDEM_OK);
        EXPECT_EQ(me.finish(start_reducing(me, longer.buffer(), in_stream)), TANDEM_OK);
      }
      EXPECT_EQ(shorter.get(), filled(100, 256));
      EXPECT_EQ(longer.get(), filled(50'000, 256));
    });
  }
}

/// A thread of the program that waits for the stream, as one that copies pageable memory does,
/// keeps the driver locked.
TEST(StagedCalls, NeedNoDriver) {
  for (const bool in_stream : {false, true}) {
    staged_jobs jobs({0, 1});
    std::barrier<> both(2);
    jobs.run([&](device_rank& me) {
      introduce(me);
      device_numbers data(me, filled(100, 1));
      EXPECT_EQ(me.finish(start_reducing(me, data.buffer(), in_stream)), TANDEM_OK)
          << me.error.text;
      EXPECT_EQ(data.get(), filled(100, 2));
      standing_stream blocked(*me.gpu);
      blocked.hold(me.stream.get());
      tandem_op* const op = start_reducing(me, data.buffer(), in_stream);
      EXPECT_EQ(tandem_op_wait_stream(op, me.stream.get(), &me.error), TANDEM_OK);
      both.arrive_and_wait();
      std::shared_ptr<void> locked;
      if (me.rank == 0) locked = jobs.gpus.gpus.lock_driver();
      both.arrive_and_wait();
      blocked.release();
      EXPECT_EQ(tandem_op_wait(op, 20000, &me.error), TANDEM_OK) << me.error.text;
      both.arrive_and_wait();
      locked.reset();
      both.arrive_and_wait();
      tandem_op_release(op);
      EXPECT_EQ(data.get(), filled(100, 4));
    });
  }
}

/// As above, while a program wants to know of an operation that is on a stream.
TEST(StagedCalls, NeedNoDriverWhileOthersAreReported) {
  device_jobs jobs({0, 1});
  std::barrier<> both(2);
  jobs.run([&](device_rank& me) {
    constexpr tandem_reduction not_in_library{TANDEM_INT32, TANDEM_BAND, 1};
    device_numbers data(me, filled(100, 1)), staged(me, filled(100, 3));
    const auto reduce = [&](const device_numbers& what, const tandem_reduction& how,
                            accelerator::stream on) {
      tandem_call call = me.call();
      call.stream = on;
      tandem_op* op = nullptr;
      EXPECT_EQ(
          tandem_all_reduce(me.world, what.buffer(), what.buffer(), how, &call, &op, &me.error),
          TANDEM_OK)
          << me.error.text;
      return op;
    };
    for (const auto& [what, how] : {std::pair(&data, added), std::pair(&staged, not_in_library)}) {
      EXPECT_EQ(me.finish(reduce(*what, how, me.stream.get())), TANDEM_OK) << me.error.text;
    }
    EXPECT_EQ(data.get(), filled(100, 2));
    standing_stream behind(*me.gpu), blocked(*me.gpu);
    tandem_op* const queued = reduce(data, added, behind.get());
    std::atomic<bool> is_reported{false};
    tandem_op_on_complete(
        queued, [](void* context, tandem_op*) { *static_cast<std::atomic<bool>*>(context) = true; },
        &is_reported);
    blocked.hold(me.stream.get());
    tandem_op* const op = reduce(staged, not_in_library, me.stream.get());
    EXPECT_EQ(tandem_op_wait_stream(op, me.stream.get(), &me.error), TANDEM_OK);
    both.arrive_and_wait();
    if (me.rank == 0) {
      const std::shared_ptr<void> locked = jobs.gpus.gpus.lock_driver();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    both.arrive_and_wait();
    blocked.release();
    EXPECT_EQ(tandem_op_wait(op, 20000, &me.error), TANDEM_OK) << me.error.text;
    EXPECT_FALSE(is_reported);
    behind.release();
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!is_reported && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    EXPECT_TRUE(is_reported);
    tandem_op_release(queued);
    tandem_op_release(op);
    EXPECT_EQ(data.get(), filled(100, 4));
    EXPECT_EQ(staged.get(), filled(100, 3));
  });
}

/// More than there are blocks of pinned memory, behind a stream that stands still.
TEST(StagedCalls, MoreThanThereAreBlocks) {
  staged_jobs jobs({0, 1});
  jobs.run([](device_rank& me) {
    introduce(me);
    device_numbers data(me, filled(10, 1));
    for (int i = 0; i < 600; ++i) {
      EXPECT_EQ(me.finish(start_reducing(me, data.part(0, 1), true)), TANDEM_OK) << me.error.text;
      if (i % 20 == 19) me.gpu->fill(data.buffer().data, 0, sizeof(float), me.stream.get());
    }
    numbers expected = filled(10, 1);
    expected[0] = 0;
    EXPECT_EQ(data.get(), expected);
  });
}

/// Kernels that wait hold up no other stream of their hardware queue.
TEST(StagedCalls, StreamsThatShareAHardwareQueue) {
  const environment_variable one_queue("CUDA_DEVICE_MAX_CONNECTIONS", "1");
  staged_jobs jobs({0, 1, 2});
  jobs.gpus.gpus.share_hardware_queues(1);
  jobs.run([](device_rank& me) {
    introduce(me);
    for (const bool in_stream : {false, true}) {
      device_numbers first(me, filled(100, 1)), second(me, filled(200, 2));
      for (int i = 0; i < 12; ++i) {
        tandem_op* const one = start_reducing(me, first.buffer(), in_stream);
        tandem_op* const other = start_reducing(me, second.buffer(), in_stream);
        EXPECT_EQ(me.finish(other), TANDEM_OK) << me.error.text;
        EXPECT_EQ(me.finish(one), TANDEM_OK) << me.error.text;
      }
      const float factor = std::pow(3.0F, 12.0F);
      EXPECT_EQ(first.get(), filled(100, factor));
      EXPECT_EQ(second.get(), filled(200, 2 * factor));
    }
  });
  EXPECT_GE(jobs.gpus.kernels_that_wait.staged_copies(), 3 * 2 * 12 * 2 * 2);
}

TEST(StagedCalls, BetweenVendors) {
  staged_jobs jobs({0, 1, 0, 1}, 2);
  jobs.run([](device_rank& me) {
    introduce(me);
    device_numbers data(me, filled(500, static_cast<float>(me.rank)));
    EXPECT_EQ(me.finish(start_reducing(me, data.buffer(), me.rank % 2 == 0)), TANDEM_OK)
        << me.error.text;
    EXPECT_EQ(data.get(), filled(500, 6));
  });
}

/// The lowest limit of any rank holds for all.
TEST(StagedCalls, OneRankHasThemOff) {
  staged_jobs jobs({0, 1});
  jobs.run([](device_rank& me) { introduce(me); }, "0");
  EXPECT_EQ(jobs.gpus.kernels_that_wait.staged_copies(), 0);
}

/// Streams go on, and the failure is reported.
TEST(StagedCalls, ALostRank) {
  for (const bool in_stream : {false, true}) {
    staged_jobs jobs({0, 1, 2});
    std::atomic<int> queued{0};
    jobs.run([&](device_rank& me) {
      introduce(me);
      device_numbers data(me, filled(10, 1));
      if (me.rank == 2) {
        data.finish();
        while (queued < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        tandem_job_abort(me.job, "for a test");
        return;
      }
      tandem_op* const op = start_reducing(me, data.buffer(), in_stream);
      EXPECT_EQ(tandem_op_wait_stream(op, me.stream.get(), &me.error), TANDEM_OK);
      ++queued;
      EXPECT_EQ(tandem_op_wait(op, 20000, &me.error), TANDEM_ERR_PEER_LOST) << me.error.text;
      EXPECT_NE(std::string(me.error.text).find("rank 2 has aborted"), std::string::npos)
          << me.error.text;
      tandem_op_release(op);
      data.finish();
    });
  }
}

TEST(StagedCalls, DifferentCallsAreNamed) {
  staged_jobs jobs({0, 1});
  jobs.run([](device_rank& me) {
    introduce(me);
    device_numbers data(me, filled(10, 1));
    tandem_op* const op = start_reducing(me, data.part(0, me.rank == 0 ? 10 : 9), true);
    tandem_op_wait_stream(op, me.stream.get(), &me.error);
    EXPECT_EQ(tandem_op_wait(op, 20000, &me.error), TANDEM_ERR_CALL_MISMATCH) << me.error.text;
    tandem_op_release(op);
    data.finish();
  });
}

TEST(StagedCalls, ARankThatDoesNotCallIsATimeout) {
  staged_jobs jobs({0, 1});
  std::atomic<bool> is_over{false};
  jobs.run([&](device_rank& me) {
    introduce(me);
    device_numbers data(me, filled(10, 1));
    if (me.rank == 0) {
      tandem_call call = me.call();
      call.in_stream = 1;
      call.timeout_ms = 300;
      tandem_op* op = nullptr;
      ASSERT_EQ(
          tandem_all_reduce(me.world, data.buffer(), data.buffer(), added, &call, &op, &me.error),
          TANDEM_OK);
      EXPECT_EQ(tandem_op_wait_stream(op, me.stream.get(), &me.error), TANDEM_OK);
      data.finish();
      EXPECT_EQ(tandem_op_wait(op, 20000, &me.error), TANDEM_ERR_TIMED_OUT) << me.error.text;
      tandem_op_release(op);
      is_over = true;
    }
    while (!is_over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
}

TEST(StagedCalls, ACaptureIsRefused) {
  staged_jobs jobs({0, 1});
  jobs.run([&](device_rank& me) {
    introduce(me);
    device_numbers data(me, filled(10, 1));
    me.gpu->finish(me.stream.get());
    jobs.gpus.gpus.capture(static_cast<detail::cu::stream>(me.stream.get()), true);
    EXPECT_EQ(start_reducing(me, data.buffer(), true, TANDEM_ERR_BAD_INPUT), nullptr);
    jobs.gpus.gpus.capture(static_cast<detail::cu::stream>(me.stream.get()), false);
    EXPECT_EQ(me.finish(start_reducing(me, data.buffer(), true)), TANDEM_OK) << me.error.text;
    EXPECT_EQ(data.get(), filled(10, 2));
  });
}

}  // namespace
}  // namespace tandem::test
