// How completed operations on streams are let go of.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>

#include "c/device_messages.hpp"

namespace tandem::test {
namespace {

/// What they use is used again.
TEST(QueuedOperations, AreLetGoOfWhileOthersAreMade) {
  device_jobs jobs({0, 1});
  jobs.separate_islands();
  std::size_t most = 0;
  jobs.run([&](device_rank& me) {
    filled_bytes sent(me, 64), received(me, 64);
    for (int i = 0; i < 300; ++i) {
      exchange(me, sent, received);
      if (me.rank == 0) most = std::max(most, jobs.gpus.gpus.open().events);
    }
  });
  EXPECT_LT(most, 100U) << "of at least 600 that were recorded";
}

/// The driver is asked about few of those that are complete: a stream has an order.
TEST(QueuedOperations, AreCompleteInTheOrderOfTheirStream) {
  device_jobs jobs({0, 1});
  jobs.separate_islands();
  std::barrier both(2);
  std::size_t asked = 0;
  jobs.run([&](device_rank& me) {
    filled_bytes sent(me, 64), received(me, 64);
    for (int i = 0; i < 3; ++i) exchange(me, sent, received);
    standing_stream blocked(*me.gpu);
    blocked.hold(me.stream.get());
    tandem_op* last = nullptr;
    for (int i = 0; i < 60; ++i) {
      tandem_op_release(last);
      last = me.rank == 0 ? send(me, sent.buffer(), 1) : receive(me, received.buffer(), 0);
    }
    EXPECT_EQ(me.finish(last), TANDEM_OK) << me.error.text;
    blocked.release();
    me.gpu->finish(me.stream.get());
    both.arrive_and_wait();  // all are complete
    if (me.rank == 0) asked = jobs.gpus.gpus.calls("cuEventQuery");
    both.arrive_and_wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    both.arrive_and_wait();
    if (me.rank == 0) asked = jobs.gpus.gpus.calls("cuEventQuery") - asked;
    both.arrive_and_wait();
  });
  EXPECT_LT(asked, 60U) << "for 120 messages";
}

}  // namespace
}  // namespace tandem::test
