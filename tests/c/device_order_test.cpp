// The order in which operations on device memory begin.
#include <array>
#include <chrono>
#include <thread>

#include "c/device_bytes.hpp"

namespace tandem::test {
namespace {

/// The first ends as soon as it begins, while the second waits for its stream.
TEST(DeviceOrder, OperationsBeginInTheOrderOfTheirCalls) {
  device_jobs jobs({0});
  jobs.run([](device_rank& me) {
    device_numbers data(me, filled(10, 1));
    data.finish();
    standing_stream first(*me.gpu), second(*me.gpu);
    std::array<tandem_op*, 3> ops{};
    const std::array<accelerator::stream, 3> streams{first.get(), second.get(), me.stream.get()};
    for (std::size_t i = 0; i < ops.size(); ++i) {
      tandem_call call = me.call();
      call.stream = streams[i];
      ASSERT_EQ(tandem_broadcast(me.world, data.buffer(), 0, &call, &ops[i], &me.error), TANDEM_OK);
    }
    first.release();
    EXPECT_EQ(tandem_op_wait(ops[0], 20000, &me.error), TANDEM_OK) << me.error.text;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    while (std::chrono::steady_clock::now() < end) {
      ASSERT_EQ(tandem_op_test(ops[2], &me.error), TANDEM_IN_PROGRESS) << "before the second";
      std::this_thread::yield();
    }
    second.release();
    for (tandem_op* const each : ops) {
      EXPECT_EQ(tandem_op_wait(each, 20000, &me.error), TANDEM_OK) << me.error.text;
      tandem_op_release(each);
    }
  });
}

}  // namespace
}  // namespace tandem::test
