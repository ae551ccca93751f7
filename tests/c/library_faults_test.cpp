// Ranks whose calls of their vendor's library differ or are missing, through the C interface.
#include "c/device_job.hpp"

namespace tandem::test {
namespace {

void expect_one_reduced(device_rank& me) {
  device_numbers data(me, filled(5, 1));
  const tandem_call call = me.call();
  tandem_op* op = nullptr;
  EXPECT_EQ(tandem_all_reduce(me.world, data.buffer(), data.buffer(), added, &call, &op, &me.error),
            TANDEM_OK);
  EXPECT_EQ(me.finish(op), TANDEM_OK) << me.error.text;
  EXPECT_EQ(data.get(), filled(5, static_cast<float>(me.ranks)));
}

TEST(LibraryFaults, ARankThatDoesNotCallIsATimeout) {
  device_jobs jobs({0, 1});
  jobs.run([](device_rank& me) {
    expect_one_reduced(me);
    device_numbers data(me, filled(5, 1));
    tandem_op* op = nullptr;
    if (me.rank == 0) {
      tandem_call call = me.call();
      call.timeout_ms = 1500;
      ASSERT_EQ(
          tandem_all_reduce(me.world, data.buffer(), data.buffer(), added, &call, &op, &me.error),
          TANDEM_OK);
      EXPECT_EQ(tandem_op_wait(op, 20000, &me.error), TANDEM_ERR_TIMED_OUT) << me.error.text;
      EXPECT_NE(std::string(me.error.text).find("tandem_all_reduce"), std::string::npos)
          << me.error.text;
      EXPECT_NE(std::string(me.error.text).find("rank 1 has made 1 of 2 collectives"),
                std::string::npos)
          << me.error.text;
    } else {
      const tandem_buffer nothing{};
      ASSERT_EQ(tandem_recv(me.world, nothing, 0, 3, nullptr, &op, &me.error), TANDEM_OK);
      EXPECT_EQ(tandem_op_wait(op, 20000, &me.error), TANDEM_ERR_TIMED_OUT) << me.error.text;
    }
    tandem_op_release(op);
  });
}

/// On GPUs they would wait for each other for ever.
TEST(LibraryFaults, DifferentCallsAreNamedOnEveryRank) {
  device_jobs jobs({0, 1, 2});
  jobs.library.hang_mismatches();
  jobs.run([](device_rank& me) {
    expect_one_reduced(me);
    device_numbers data(me, filled(5, 1));
    const tandem_call call = me.call();
    const tandem_buffer some = data.part(0, me.rank == 1 ? 4 : 5);
    tandem_op* op = nullptr;
    ASSERT_EQ(tandem_all_reduce(me.world, some, some, added, &call, &op, &me.error), TANDEM_OK);
    EXPECT_EQ(tandem_op_wait(op, 20000, &me.error), TANDEM_ERR_CALL_MISMATCH) << me.error.text;
    for (const char* const text : {"all_reduce of 20 bytes", "all_reduce of 16 bytes", "rank 1"})
      EXPECT_NE(std::string(me.error.text).find(text), std::string::npos) << me.error.text;
    tandem_op_release(op);
    data.finish();
  });
}

/// In the first collective of a group, which finds out what the ranks can do, and in a later one.
TEST(LibraryFaults, ABufferInHostMemoryIsNamedOnEveryRank) {
  for (const bool is_first : {true, false}) {
    device_jobs jobs({0, 1, 2});
    jobs.library.hang_mismatches();
    jobs.run([is_first](device_rank& me) {
      if (!is_first) expect_one_reduced(me);
      device_numbers data(me, filled(5, 1));
      numbers host = filled(5, 1);
      const tandem_buffer on_host{host.data(), 5 * sizeof(float), TANDEM_HOST, 0};
      const tandem_buffer buffer = me.rank == 1 ? on_host : data.buffer();
      const tandem_call call = me.call();
      tandem_op* op = nullptr;
      ASSERT_EQ(tandem_all_reduce(me.world, buffer, buffer, added, &call, &op, &me.error),
                TANDEM_OK);
      EXPECT_EQ(tandem_op_wait(op, 20000, &me.error), TANDEM_ERR_CALL_MISMATCH) << me.error.text;
      EXPECT_NE(std::string(me.error.text).find("rank 1"), std::string::npos) << me.error.text;
      if (!is_first) {
        EXPECT_NE(std::string(me.error.text).find("in the memory of its GPU"), std::string::npos)
            << me.error.text;
      }
      tandem_op_release(op);
      data.finish();
    });
  }
}

/// One rank starts them together, the other one after the other.
TEST(LibraryFaults, BothWaysInABatch) {
  device_jobs jobs({0, 1});
  jobs.run([](device_rank& me) {
    for (int i = 0; i < 4; ++i) {
      device_numbers data(me, filled(5, 1)), least(me, filled(5, static_cast<float>(me.rank)));
      constexpr tandem_reduction lowest{TANDEM_FLOAT32, TANDEM_MINIMUM, 1};
      tandem_batch* const together = me.rank == 0 ? tandem_batch_create() : nullptr;
      const tandem_call call = me.call(together);
      std::vector<tandem_op*> ops(4);
      for (std::size_t n = 0; n < ops.size(); ++n) {
        const bool is_sum = n % 2 == 0;
        const tandem_buffer buffer = (is_sum ? data : least).buffer();
        EXPECT_EQ(tandem_all_reduce(me.world, buffer, buffer, is_sum ? added : lowest, &call,
                                    &ops[n], &me.error),
                  TANDEM_OK);
      }
      if (together != nullptr) {
        EXPECT_EQ(tandem_batch_launch(together, &me.error), TANDEM_OK);
      }
      for (tandem_op* const op : ops) EXPECT_EQ(me.finish(op), TANDEM_OK) << me.error.text;
      EXPECT_EQ(data.get(), filled(5, 4));
      EXPECT_EQ(least.get(), filled(5, 0));
      tandem_batch_destroy(together);
      std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the ranks report
    }
  });
}

/// What channels carry, in its order among what the library carries.
TEST(LibraryFaults, BothWaysInOneOrder) {
  device_jobs jobs({0, 1});
  jobs.run([](device_rank& me) {
    for (int i = 0; i < 4; ++i) {
      expect_one_reduced(me);
      tandem_op* op = nullptr;
      EXPECT_EQ(tandem_barrier(me.world, nullptr, &op, &me.error), TANDEM_OK);
      EXPECT_EQ(tandem_op_wait(op, 20000, &me.error), TANDEM_OK) << me.error.text;
      tandem_op_release(op);
      std::this_thread::sleep_for(std::chrono::milliseconds(200));  // the ranks report
    }
  });
}

/// One rank gives the lengths of its blocks, which are all equal, and the other one none.
TEST(LibraryFaults, EqualBlocksMayBeGivenInTwoWays) {
  device_jobs jobs({0, 1});
  jobs.run([](device_rank& me) {
    const auto own = static_cast<float>(10 * me.rank);
    const std::vector<std::size_t> lengths(2, 2 * sizeof(float));
    const std::size_t* const given = me.rank == 0 ? lengths.data() : nullptr;
    device_numbers from(me, {own, own + 1, own + 2, own + 3}), into(me, filled(4, -1));
    const auto exchange = [&] {
      const tandem_call call = me.call();
      tandem_op* op = nullptr;
      EXPECT_EQ(tandem_all_to_all(me.world, from.buffer(), given, into.buffer(), given, &call, &op,
                                  &me.error),
                TANDEM_OK);
      EXPECT_EQ(me.finish(op), TANDEM_OK) << me.error.text;
    };
    exchange();
    std::this_thread::sleep_for(std::chrono::milliseconds(600));  // the ranks have reported it
    exchange();
    const auto first = static_cast<float>(2 * me.rank);
    EXPECT_EQ(into.get(), (numbers{first, first + 1, 10 + first, 11 + first}));
  });
}

/// The receiver would wait for the rest.
TEST(LibraryFaults, MessagesOfDifferentLengthsAreNamedOnBothRanks) {
  device_jobs jobs({0, 1});
  jobs.library.hang_mismatches();
  jobs.run([](device_rank& me) {
    device_numbers data(me, filled(5, 1));
    for (const std::size_t other_count : {5, 4}) {
      const tandem_call call = me.call();
      tandem_op* op = nullptr;
      if (me.rank == 0) {
        ASSERT_EQ(tandem_send(me.world, data.part(0, 5), 1, 0, &call, &op, &me.error), TANDEM_OK);
      } else {
        ASSERT_EQ(tandem_recv(me.world, data.part(0, other_count), 0, 0, &call, &op, &me.error),
                  TANDEM_OK);
      }
      const tandem_status became = tandem_op_wait(op, 20000, &me.error);
      tandem_op_release(op);
      if (other_count == 5) {
        EXPECT_EQ(became, TANDEM_OK) << me.error.text;
        continue;
      }
      EXPECT_EQ(became, TANDEM_ERR_CALL_MISMATCH) << me.error.text;
      for (const char* const text : {"message 2 of 20 bytes", "message 2 of 16 bytes"})
        EXPECT_NE(std::string(me.error.text).find(text), std::string::npos) << me.error.text;
    }
    data.finish();
  });
}

}  // namespace
}  // namespace tandem::test
