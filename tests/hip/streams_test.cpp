#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <cstring>
#include <tandem/accelerator.hpp>

#include "hip/rig.hpp"

// Vendor-independent classes on top of accelerators, here over HIP.

namespace tandem::test {
namespace {

char byte_at(hip_rig& rig, const buffer& of) {
  return static_cast<char>(*rig.gpus.host(of.data()));
}

cuda_double::options by_hand() {
  cuda_double::options as;
  as.manual = true;
  return as;
}

awaitable<void> waits_for_the_device(hip_rig& rig) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  accelerator& of = hip_at(1);
  device_watch watch(executor, of);
  const device_stream on(of);
  const buffer memory(1, memory_kind::hip, 1);
  of.fill(memory.data(), 'x', 1, on.get());
  background waiting(executor, watch.reached(on.get()));
  co_await turns(20);
  EXPECT_FALSE(waiting.is_over());
  EXPECT_EQ(byte_at(rig, memory), 0) << "used before it is ready";
  rig.gpus.manual(false);
  co_await waiting.result();
  EXPECT_EQ(byte_at(rig, memory), 'x');
}

TEST(hip_streams, are_watched) {
  for (const drive by : {drive::by_asio, drive::by_spinning}) {
    hip_rig rig(by_hand());
    run_test(waits_for_the_device(rig), by);
  }
}

awaitable<void> gets_the_failure(hip_rig& rig) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  accelerator& of = hip_at(0);
  device_watch watch(executor, of);
  const device_stream on(of);
  background waiting(executor, watch.reached(on.get()));
  co_await turns(20);
  EXPECT_FALSE(waiting.is_over());
  hip_on_cuda::fail("hipEventQuery", 1, amd::launch_failure);
  rig.gpus.run_all();
  const std::optional<error> failure = co_await waiting.failure();
  expect_error(failure, errc::device_failed, {"hipEventQuery", "hip:0"});
}

TEST(hip_streams, failure_reaches_waiters) {
  hip_rig rig(by_hand());
  run_test(gets_the_failure(rig));
}

TEST(hip_streams, support_holds) {
  hip_rig rig(by_hand());
  asio::io_context context{1};
  accelerator& of = hip_at(0);
  {
    const device_stream on(of);
    const buffer memory(1, memory_kind::hip, 0);
    device_watch watch(context.get_executor(), of);
    of.fill(memory.data(), 'a', 1, on.get());
    stream_hold hold = watch.hold(on.get());
    of.fill(memory.data(), 'b', 1, on.get());
    rig.gpus.run_all();
    EXPECT_EQ(byte_at(rig, memory), 'a');
    hold.release();
    rig.gpus.run_all();
    EXPECT_EQ(byte_at(rig, memory), 'b');
  }
}

}  // namespace
}  // namespace tandem::test
