// Operations on device memory that a vendor's library carries out, through the C interface.
#include <barrier>
#include <chrono>
#include <numeric>
#include <thread>

#include "c/device_job.hpp"
#include "support/expected_log.hpp"

namespace tandem::test {
namespace {

numbers all_reduced(device_rank& me, tandem_reduction how, float value) {
  device_numbers data(me, filled(5, value));
  const tandem_call call = me.call();
  tandem_op* op = nullptr;
  EXPECT_EQ(tandem_all_reduce(me.world, data.buffer(), data.buffer(), how, &call, &op, &me.error),
            TANDEM_OK);
  EXPECT_EQ(me.finish(op), TANDEM_OK) << me.error.text;
  return data.get();
}

std::string described(const device_rank& me) {
  std::array<char, 256> text{};
  tandem_comm_describe(me.world, text.data(), text.size());
  return text.data();
}

TEST(LibraryCalls, ReduceInStreamOrder) {
  device_jobs jobs({0, 1, 2});
  jobs.run([](device_rank& me) {
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(all_reduced(me, added, static_cast<float>(me.rank + i)),
                filled(5, static_cast<float>(3 + 3 * i)));
    }
    EXPECT_EQ(described(me).find("NCCL 2.28.3"), 0) << described(me);
  });
  EXPECT_EQ(jobs.library.calls("ncclAllReduce"), 60);
}

tandem_op* start_reducing(device_rank& me, const device_numbers& data, int in_stream) {
  tandem_call call = me.call();
  call.in_stream = in_stream;
  tandem_op* op = nullptr;
  EXPECT_EQ(tandem_all_reduce(me.world, data.buffer(), data.buffer(), added, &call, &op, &me.error),
            TANDEM_OK)
      << me.error.text;
  return op;
}

/// What is queued on it behind the call waits, though nobody has let it wait.
TEST(LibraryCalls, OnTheCallersStream) {
  device_jobs jobs({0, 1});
  jobs.run([](device_rank& me) {
    all_reduced(me, added, 1);
    for (const int in_stream : {3, 1}) {
      device_numbers data(me, filled(5, static_cast<float>(me.rank + 1)));
      if (me.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      tandem_op* const op = start_reducing(me, data, in_stream);
      EXPECT_EQ(tandem_op_streams_can_wait(op), 1);
      EXPECT_EQ(data.get(), filled(5, 3));
      EXPECT_EQ(me.finish(op), TANDEM_OK) << me.error.text;
    }
    EXPECT_EQ(all_reduced(me, added, 4), filled(5, 8));
  });
  EXPECT_EQ(jobs.library.calls("ncclAllReduce"), 2 * 4);
}

TEST(LibraryCalls, StreamsCannotWaitForChannels) {
  device_jobs jobs({0, 1});
  std::barrier<> both(2);
  jobs.run(
      [&both](device_rank& me) {
        device_numbers data(me, filled(5, 1));
        tandem_op* op = nullptr;
        if (me.rank == 0) {
          op = start_reducing(me, data, 0);
          EXPECT_EQ(tandem_op_streams_can_wait(op), 0);
        }
        both.arrive_and_wait();
        if (me.rank == 1) op = start_reducing(me, data, 0);
        EXPECT_EQ(tandem_op_wait(op, 20000, &me.error), TANDEM_OK) << me.error.text;
        EXPECT_EQ(tandem_op_streams_can_wait(op), 1);
        tandem_op_release(op);
        EXPECT_EQ(data.get(), filled(5, 2));
      },
      {"vendor-library", "0", "stream-kernel-bytes", "0", "stream-staging-bytes", "0", nullptr});
}

TEST(LibraryCalls, OtherReductions) {
  device_jobs jobs({0, 1});
  jobs.run([](device_rank& me) {
    const auto own = static_cast<float>(me.rank + 1);
    EXPECT_EQ(all_reduced(me, {TANDEM_FLOAT32, TANDEM_AVERAGE, 1}, own), filled(5, 1.5F));
    EXPECT_EQ(all_reduced(me, {TANDEM_FLOAT32, TANDEM_PREMULTIPLIED_SUM, 0.5}, own),
              filled(5, 1.5F));
    // The library would lose a NaN.
    EXPECT_EQ(all_reduced(me, {TANDEM_FLOAT32, TANDEM_MAXIMUM, 1}, own), filled(5, 2));
  });
  EXPECT_EQ(jobs.library.calls("ncclAllReduce"), 4);
}

TEST(LibraryCalls, RanksThatShareADeviceUseChannels) {
  expect_log(
      "ranks 0 and 1 share a device, up to 1G by kernels, up to 64K in the order of streams; "
      "give each rank a GPU of its own");
  device_jobs jobs({0, 0});
  jobs.run([](device_rank& me) {
    EXPECT_EQ(all_reduced(me, added, 2), filled(5, 4));
    EXPECT_EQ(described(me).find("NCCL"), std::string::npos) << described(me);
  });
  EXPECT_EQ(jobs.library.calls("ncclAllReduce"), 0);
}

/// Ranks 0 and 1 use the library with each other; rank 2, on a device of AMD, channels. Calls that
/// are made without waiting are carried out one after the other.
TEST(LibraryCalls, IslandsOfTwoVendors) {
  device_jobs jobs({0, 1, 2}, 2);
  jobs.run(
      [](device_rank& me) {
        const auto own = static_cast<float>(me.rank);
        std::vector<std::unique_ptr<device_numbers>> all;
        std::vector<tandem_op*> ops;
        for (int i = 0; i < 6; ++i) {
          all.push_back(
              std::make_unique<device_numbers>(me, filled(50, own + static_cast<float>(i))));
          const tandem_call call = me.call();
          const tandem_buffer data = all.back()->buffer();
          EXPECT_EQ(tandem_all_reduce(me.world, data, data, added, &call,
                                      &ops.emplace_back(nullptr), &me.error),
                    TANDEM_OK);
          EXPECT_EQ(tandem_barrier(me.world, nullptr, &ops.emplace_back(nullptr), &me.error),
                    TANDEM_OK);
        }
        for (tandem_op* const each : ops) {
          EXPECT_EQ(tandem_op_wait(each, 20000, &me.error), TANDEM_OK) << me.error.text;
          tandem_op_release(each);
        }
        for (int i = 0; i < 6; ++i)
          EXPECT_EQ(all[static_cast<std::size_t>(i)]->get(),
                    filled(50, static_cast<float>(3 + 3 * i)));

        device_numbers sent(me, filled(7, own)), received(me, filled(7, -1));
        const tandem_call call = me.call();
        std::array<tandem_op*, 2> both{};
        EXPECT_EQ(
            tandem_send(me.world, sent.buffer(), (me.rank + 1) % 3, 0, &call, &both[0], &me.error),
            TANDEM_OK);
        EXPECT_EQ(tandem_recv(me.world, received.buffer(), (me.rank + 2) % 3, 0, &call, &both[1],
                              &me.error),
                  TANDEM_OK);
        for (tandem_op* const each : both) EXPECT_EQ(me.finish(each), TANDEM_OK) << me.error.text;
        EXPECT_EQ(received.get(), filled(7, static_cast<float>((me.rank + 2) % 3)));
        EXPECT_EQ(described(me).find("2 islands: cuda (ranks 0, 1) by NCCL 2.28.3, hip (rank 2)"),
                  0)
            << described(me);
      },
      {"stream-staging-bytes", "0", nullptr});
  EXPECT_GT(jobs.library.calls("ncclReduceScatter") + jobs.library.calls("ncclReduce"), 0);
}

TEST(LibraryCalls, TheSettingTurnsThemOff) {
  device_jobs jobs({0, 1});
  jobs.run([](device_rank& me) { EXPECT_EQ(all_reduced(me, added, 2), filled(5, 4)); },
           {"vendor-library", "0", nullptr});
  EXPECT_EQ(jobs.library.calls("ncclAllReduce"), 0);
}

TEST(LibraryCalls, EveryCollective) {
  device_jobs jobs({0, 1, 2});
  jobs.run([](device_rank& me) {
    const auto own = static_cast<float>(me.rank);
    const tandem_call call = me.call();
    tandem_op* op = nullptr;
    const auto done = [&](tandem_status started) {
      EXPECT_EQ(started, TANDEM_OK) << me.error.text;
      EXPECT_EQ(me.finish(op), TANDEM_OK) << me.error.text;
    };
    device_numbers data(me, filled(4, own));
    done(tandem_broadcast(me.world, data.buffer(), 2, &call, &op, &me.error));
    EXPECT_EQ(data.get(), filled(4, 2));

    device_numbers one(me, filled(4, own)), into(me, filled(4, -1));
    done(tandem_reduce(me.world, one.buffer(), into.buffer(), added, 1, &call, &op, &me.error));
    EXPECT_EQ(into.get(), filled(4, me.rank == 1 ? 3 : -1));

    device_numbers three(me, filled(3, -1));
    done(tandem_all_gather(me.world, one.part(0, 1), three.buffer(), nullptr, &call, &op,
                           &me.error));
    EXPECT_EQ(three.get(), (numbers{0, 1, 2}));

    const std::vector<std::size_t> lengths{4, 0, 8};
    const std::size_t counts[] = {1, 0, 2};
    const std::size_t mine = counts[me.rank];
    done(tandem_all_gather(me.world, one.part(0, mine), three.buffer(), lengths.data(), &call, &op,
                           &me.error));
    EXPECT_EQ(three.get(), (numbers{0, 2, 2}));

    device_numbers all(me, {1, 2, 3}), part(me, filled(2, -1));
    done(tandem_reduce_scatter(me.world, all.buffer(), part.part(0, 1), nullptr, added, &call, &op,
                               &me.error));
    EXPECT_EQ(part.get()[0], 3 * (own + 1));
    done(tandem_reduce_scatter(me.world, all.buffer(), part.part(0, mine), lengths.data(), added,
                               &call, &op, &me.error));
    if (me.rank == 2) {
      EXPECT_EQ(part.get(), (numbers{6, 9}));
    }

    done(tandem_gather(me.world, one.part(0, 1), me.rank == 0 ? three.buffer() : tandem_buffer{},
                       nullptr, 0, &call, &op, &me.error));
    if (me.rank == 0) {
      EXPECT_EQ(three.get(), (numbers{0, 1, 2}));
    }
    done(tandem_scatter(me.world, me.rank == 0 ? all.buffer() : tandem_buffer{}, part.part(0, 1),
                        nullptr, 0, &call, &op, &me.error));
    EXPECT_EQ(part.get()[0], own + 1);

    device_numbers sent(me, {10 * own, 10 * own + 1, 10 * own + 2});
    done(tandem_all_to_all(me.world, sent.buffer(), nullptr, three.buffer(), nullptr, &call, &op,
                           &me.error));
    EXPECT_EQ(three.get(), (numbers{own, 10 + own, 20 + own}));
    // Rank r sends r numbers to each rank.
    const std::vector<std::size_t> out(3, sizeof(float) * static_cast<std::size_t>(me.rank));
    const std::vector<std::size_t> in{0, sizeof(float), 2 * sizeof(float)};
    device_numbers few(me, filled(6, own));
    done(tandem_all_to_all(me.world, few.part(0, 3 * static_cast<std::size_t>(me.rank)), out.data(),
                           three.buffer(), in.data(), &call, &op, &me.error));
    EXPECT_EQ(three.get(), (numbers{1, 2, 2}));
  });
}

/// A call that channels carry waits for the outcome of the first one; those behind it do, too.
TEST(LibraryCalls, CollectivesStartInTheOrderOfTheirCalls) {
  for (int turn = 0; turn < 5; ++turn) {
    device_jobs jobs({0, 1});
    jobs.run([](device_rank& me) {
      device_numbers data(me, filled(5, static_cast<float>(me.rank)));
      const tandem_call call = me.call();
      std::array<tandem_op*, 2> ops{};
      const tandem_reduction maximum{TANDEM_FLOAT32, TANDEM_MAXIMUM, 1};
      EXPECT_EQ(tandem_all_reduce(me.world, data.buffer(), data.buffer(), maximum, &call, &ops[0],
                                  &me.error),
                TANDEM_OK);
      if (me.rank == 1) {
        EXPECT_EQ(tandem_op_wait(ops[0], 20000, &me.error), TANDEM_OK) << me.error.text;
      }
      float one = 1;
      const tandem_buffer host{&one, sizeof one, TANDEM_HOST, 0};
      EXPECT_EQ(tandem_all_reduce(me.world, host, host, added, nullptr, &ops[1], &me.error),
                TANDEM_OK);
      for (tandem_op* const each : ops) {
        EXPECT_EQ(tandem_op_wait(each, 20000, &me.error), TANDEM_OK) << me.error.text;
        tandem_op_release(each);
      }
      EXPECT_EQ(one, 2);
      EXPECT_EQ(data.get(), filled(5, 1));
    });
  }
}

/// Each rank sends to the next one before it receives from the one before.
TEST(LibraryCalls, MessagesInARing) {
  device_jobs jobs({0, 1, 2});
  jobs.run([](device_rank& me) {
    const int next = (me.rank + 1) % me.ranks, before = (me.rank + 2) % me.ranks;
    for (int i = 0; i < 5; ++i) {
      device_numbers sent(me, filled(7, static_cast<float>(10 * me.rank + i)));
      device_numbers received(me, filled(7, -1));
      const tandem_call call = me.call();
      tandem_op *send = nullptr, *recv = nullptr;
      EXPECT_EQ(tandem_send(me.world, sent.buffer(), next, 0, &call, &send, &me.error), TANDEM_OK);
      EXPECT_EQ(tandem_recv(me.world, received.buffer(), before, 0, &call, &recv, &me.error),
                TANDEM_OK);
      EXPECT_EQ(tandem_op_wait(recv, 20000, &me.error), TANDEM_OK) << me.error.text;
      EXPECT_EQ(tandem_op_source(recv), before);
      EXPECT_EQ(tandem_op_bytes(recv), 7 * sizeof(float));
      EXPECT_EQ(me.finish(send), TANDEM_OK) << me.error.text;
      EXPECT_EQ(me.finish(recv), TANDEM_OK) << me.error.text;
      EXPECT_EQ(received.get(), filled(7, static_cast<float>(10 * before + i)));
    }
  });
  EXPECT_EQ(jobs.library.calls("ncclSend"), 15 + 6);  // one to connect each pair in each direction
}

TEST(LibraryCalls, BatchesAreLaunchedAsOne) {
  device_jobs jobs({0, 1});
  jobs.run([](device_rank& me) {
    const int other = 1 - me.rank;
    tandem_batch* const batch = tandem_batch_create();
    for (int i = 0; i < 3; ++i) {
      device_numbers sent(me, filled(7, static_cast<float>(10 * me.rank + i)));
      device_numbers received(me, filled(7, -1)), total(me, filled(3, 1));
      const tandem_call call = me.call(batch);
      std::array<tandem_op*, 3> ops{};
      EXPECT_EQ(tandem_recv(me.world, received.buffer(), other, 0, &call, &ops[0], &me.error),
                TANDEM_OK);
      EXPECT_EQ(tandem_op_wait(ops[0], 0, &me.error), TANDEM_ERR_BAD_INPUT);
      EXPECT_EQ(tandem_send(me.world, sent.buffer(), other, 0, &call, &ops[1], &me.error),
                TANDEM_OK);
      EXPECT_EQ(tandem_all_reduce(me.world, total.buffer(), total.buffer(), added, &call, &ops[2],
                                  &me.error),
                TANDEM_OK);
      EXPECT_EQ(tandem_batch_launch(batch, &me.error), TANDEM_OK);
      for (tandem_op* const each : ops) EXPECT_EQ(me.finish(each), TANDEM_OK) << me.error.text;
      EXPECT_EQ(received.get(), filled(7, static_cast<float>(10 * other + i)));
      EXPECT_EQ(total.get(), filled(3, 2));
    }
    tandem_op* never = nullptr;
    const tandem_call call = me.call(batch);
    EXPECT_EQ(tandem_barrier(me.world, &call, &never, &me.error), TANDEM_OK);
    tandem_batch_destroy(batch);
    EXPECT_EQ(tandem_op_test(never, &me.error), TANDEM_ERR_CANCELLED) << me.error.text;
    tandem_op_release(never);
  });
}

TEST(LibraryCalls, CompletionIsReported) {
  device_jobs jobs({0, 1});
  jobs.run([](device_rank& me) {
    for (int i = 0; i < 5; ++i) {
      device_numbers data(me, filled(5, 1));
      const tandem_call call = me.call();
      tandem_op* op = nullptr;
      EXPECT_EQ(
          tandem_all_reduce(me.world, data.buffer(), data.buffer(), added, &call, &op, &me.error),
          TANDEM_OK);
      std::atomic<bool> is_over{false};
      tandem_op_on_complete(
          op, [](void* context, tandem_op*) { *static_cast<std::atomic<bool>*>(context) = true; },
          &is_over);
      const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!is_over && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
      EXPECT_TRUE(is_over);
      EXPECT_EQ(tandem_op_test(op, &me.error), TANDEM_OK);
      tandem_op_release(op);
    }
  });
}

TEST(LibraryCalls, ALostRankEndsWhatIsQueued) {
  device_jobs jobs({0, 1, 2});
  std::barrier<> reduced(3);
  jobs.run([&reduced](device_rank& me) {
    EXPECT_EQ(all_reduced(me, added, 1), filled(5, 3));
    reduced.arrive_and_wait();
    if (me.rank == 1) return tandem_job_abort(me.job, "for a test");
    device_numbers data(me, filled(5, 1));
    const tandem_call call = me.call();
    tandem_op* op = nullptr;
    ASSERT_EQ(
        tandem_all_reduce(me.world, data.buffer(), data.buffer(), added, &call, &op, &me.error),
        TANDEM_OK);
    EXPECT_EQ(tandem_op_wait(op, 20000, &me.error), TANDEM_ERR_PEER_LOST) << me.error.text;
    EXPECT_NE(std::string(me.error.text).find("rank 1 has aborted: for a test"), std::string::npos)
        << me.error.text;
    tandem_op_release(op);
    EXPECT_EQ(tandem_comm_state(me.world, &me.error), TANDEM_ERR_PEER_LOST);
    data.finish();
  });
}

TEST(LibraryCalls, WrongArgumentsChangeNothing) {
  device_jobs jobs({0, 1});
  jobs.run([](device_rank& me) {
    EXPECT_EQ(all_reduced(me, added, 1), filled(5, 2));
    device_numbers data(me, filled(5, 1));
    const tandem_call call = me.call();
    tandem_op* op = nullptr;
    if (me.rank == 0) {
      EXPECT_EQ(tandem_broadcast(me.world, data.buffer(), 7, &call, &op, &me.error), TANDEM_OK);
      EXPECT_EQ(me.finish(op), TANDEM_ERR_BAD_INPUT) << me.error.text;
    }
    EXPECT_EQ(all_reduced(me, added, 1), filled(5, 2));
  });
}

}  // namespace
}  // namespace tandem::test
