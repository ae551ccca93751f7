#include <atomic>
#include <thread>

#include "doubles/cuda/rig.hpp"

namespace tandem::test {
namespace {

TEST(CudaDoubleStreams, WorkRunsOnlyWhenDriven) {
  cuda_rig rig(by_hand());
  const cu::stream on = rig.stream();
  char* const from = rig.pin("early");
  const cu::address to = rig.filled(".....");
  EXPECT_EQ(driver().copy(to, address_of(from), 5, on), cu::success);
  EXPECT_EQ(rig.gpus.queued(on), 1u);
  EXPECT_EQ(rig.text(to, 5), ".....") << "read before it is ready";
  std::memcpy(from, "later", 5);
  EXPECT_TRUE(rig.gpus.step());
  EXPECT_EQ(rig.text(to, 5), "later") << "written to before it was done";
  EXPECT_FALSE(rig.gpus.step());
}

TEST(CudaDoubleStreams, StreamsAreOrderedAndIndependent) {
  cuda_rig rig(by_hand());
  const cu::stream one = rig.stream(), other = rig.stream();
  const cu::address at = rig.filled("......");
  EXPECT_EQ(driver().fill(at, '1', 6, one), cu::success);
  EXPECT_EQ(driver().fill(at, '2', 4, one), cu::success);
  EXPECT_EQ(driver().fill(at, '3', 2, other), cu::success);
  EXPECT_TRUE(rig.gpus.step(other));
  EXPECT_FALSE(rig.gpus.step(other));
  EXPECT_EQ(rig.text(at, 6), "33....");
  EXPECT_TRUE(rig.gpus.step(one));
  EXPECT_EQ(rig.text(at, 6), "111111");
  EXPECT_TRUE(rig.gpus.step(one));
  EXPECT_EQ(rig.text(at, 6), "222211");
}

TEST(CudaDoubleStreams, StreamsMayShareHardwareQueues) {
  cuda_rig rig(by_hand());
  const cu::stream apart = rig.stream();
  rig.gpus.share_hardware_queues(2);
  const cu::stream waits = rig.stream(), other = rig.stream(), same = rig.stream();
  const cu::event event = rig.event();
  const cu::address at = rig.filled("...");
  EXPECT_EQ(driver().fill(at, '1', 1, apart), cu::success);
  EXPECT_EQ(driver().record_event(event, apart), cu::success);
  EXPECT_EQ(driver().wait_event(waits, event, 0), cu::success);
  EXPECT_EQ(driver().fill(at + 1, '2', 1, other), cu::success);
  EXPECT_EQ(driver().fill(at + 2, '3', 1, same), cu::success);
  EXPECT_FALSE(rig.gpus.step(same)) << "behind the wait of another stream";
  EXPECT_TRUE(rig.gpus.step(other));
  EXPECT_EQ(rig.gpus.run_all(), 4u);
  EXPECT_EQ(rig.text(at, 3), "123");
}

/// Which of two streams runs first, by seed.
TEST(CudaDoubleStreams, StreamOrderIsRandomAndReproducible) {
  std::string orders;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    std::string twice;
    for (int i = 0; i < 2; ++i) {
      cuda_double::options as = by_hand();
      as.seed = seed;
      cuda_rig rig(as);
      const cu::address at = rig.allocate(1);
      for (const char each : {'a', 'b', 'c'}) {
        EXPECT_EQ(driver().fill(at, static_cast<unsigned char>(each), 1, rig.stream()),
                  cu::success);
      }
      EXPECT_EQ(rig.gpus.run_all(), 3u);
      twice += rig.text(at, 1);
    }
    EXPECT_EQ(twice[0], twice[1]);
    orders += twice[0];
  }
  for (const char each : {'a', 'b', 'c'}) EXPECT_NE(orders.find(each), std::string::npos);
}

TEST(CudaDoubleStreams, EventsReportProgress) {
  cuda_rig rig(by_hand());
  const cu::stream on = rig.stream(), waits = rig.stream();
  const cu::event event = rig.event();
  const cu::address at = rig.filled("..");
  EXPECT_EQ(driver().query_event(event), cu::success) << "never recorded";
  EXPECT_EQ(driver().wait_event(waits, event, 0), cu::success);
  EXPECT_EQ(rig.gpus.queued(), 0u);

  EXPECT_EQ(driver().fill(at, '1', 1, on), cu::success);
  EXPECT_EQ(driver().record_event(event, on), cu::success);
  EXPECT_EQ(driver().wait_event(waits, event, 0), cu::success);
  EXPECT_EQ(driver().fill(at + 1, '2', 1, waits), cu::success);
  EXPECT_EQ(driver().query_event(event), cu::not_ready);
  EXPECT_FALSE(rig.gpus.step(waits));
  EXPECT_TRUE(rig.gpus.step(on));
  EXPECT_EQ(driver().query_event(event), cu::not_ready);
  EXPECT_TRUE(rig.gpus.step(on));
  EXPECT_EQ(driver().query_event(event), cu::success);
  // Recording the event again does not delay waiters for the previous record.
  EXPECT_EQ(driver().record_event(event, on), cu::success);
  EXPECT_EQ(driver().query_event(event), cu::not_ready);
  EXPECT_TRUE(rig.gpus.step(waits));
  EXPECT_TRUE(rig.gpus.step(waits));
  EXPECT_EQ(rig.text(at, 2), "12");
}

TEST(CudaDoubleStreams, EventsSynchronizeAcrossDevices) {
  cuda_rig rig(by_hand());
  const cu::stream first = rig.stream();
  const cu::event event = rig.event();
  EXPECT_EQ(driver().record_event(event, first), cu::success);
  rig.use(1);
  const cu::stream second = rig.stream();
  EXPECT_EQ(driver().wait_event(second, event, 0), cu::success);
  EXPECT_FALSE(rig.gpus.step(second));
  EXPECT_EQ(rig.gpus.run_all(), 2u);
  rig.gpus.expect_violation("stream and event are of two devices");
  EXPECT_EQ(driver().record_event(event, second), 400);
}

TEST(CudaDoubleStreams, MeasuresTimeBetweenEvents) {
  cuda_rig rig(by_hand());
  const cu::event from = rig.event(0), to = rig.event(0), untimed = rig.event();
  float ms = -1;
  EXPECT_EQ(driver().elapsed_ms(&ms, from, to), 400) << "never recorded";
  EXPECT_EQ(driver().record_event(from, nullptr), cu::success);
  EXPECT_EQ(driver().record_event(to, nullptr), cu::success);
  EXPECT_EQ(driver().record_event(untimed, nullptr), cu::success);
  EXPECT_EQ(driver().elapsed_ms(&ms, from, to), cu::not_ready);
  rig.gpus.run_all();
  EXPECT_EQ(driver().elapsed_ms(&ms, from, to), cu::success);
  EXPECT_GE(ms, 0);
  EXPECT_EQ(driver().elapsed_ms(&ms, from, untimed), 400);
}

TEST(CudaDoubleStreams, DefaultStreamSynchronizesWithBlockingStreams) {
  cuda_rig rig(by_hand());
  const cu::stream blocking = rig.stream(0), other = rig.stream(0), free = rig.stream();
  const cu::address at = rig.filled("....");
  EXPECT_EQ(driver().fill(at, '1', 1, blocking), cu::success);
  EXPECT_EQ(driver().fill(at + 1, '2', 1, nullptr), cu::success);
  EXPECT_EQ(driver().fill(at + 2, '3', 1, other), cu::success);
  EXPECT_EQ(driver().fill(at + 3, '4', 1, free), cu::success);
  EXPECT_FALSE(rig.gpus.step(other));
  EXPECT_TRUE(rig.gpus.step(free));
  EXPECT_TRUE(rig.gpus.step());
  EXPECT_EQ(rig.text(at, 4), "1..4");
  EXPECT_FALSE(rig.gpus.step(other));
  EXPECT_TRUE(rig.gpus.step());
  EXPECT_EQ(rig.text(at, 4), "12.4");
  EXPECT_TRUE(rig.gpus.step());
  EXPECT_EQ(rig.text(at, 4), "1234");
}

TEST(CudaDoubleStreams, StreamWaitsForValue) {
  cuda_rig rig(by_hand());
  const cu::stream held = rig.stream(), writes = rig.stream();
  const cu::address word = rig.allocate(8);
  const auto set = [&](std::uint32_t value) { std::memcpy(rig.gpus.host(word, 4), &value, 4); };
  const auto waits_for = [&](std::uint32_t value) {
    EXPECT_EQ(driver().wait_value(held, word, value, cu::wait_value_geq), cu::success);
    return !rig.gpus.step(held);
  };
  set(5);
  EXPECT_FALSE(waits_for(5));
  EXPECT_FALSE(waits_for(4));
  EXPECT_TRUE(waits_for(6));
  EXPECT_EQ(driver().write_value(writes, word, 7, 0), cu::success);
  EXPECT_FALSE(rig.gpus.step(held));
  EXPECT_TRUE(rig.gpus.step(writes));
  EXPECT_TRUE(rig.gpus.step(held));
  // The comparison wraps around.
  set(0xffff'ffff);
  EXPECT_TRUE(waits_for(1));
  set(2);
  EXPECT_TRUE(rig.gpus.step(held));

  rig.gpus.expect_violation("cuStreamWaitValue32: not aligned");
  EXPECT_EQ(driver().wait_value(held, word + 1, 0, 0), cu::invalid_value);
  std::uint32_t pageable = 0;
  rig.gpus.expect_violation("cuStreamWriteValue32: not aligned, or");
  EXPECT_EQ(driver().write_value(held, address_of(&pageable), 0, 0), cu::invalid_value);
}

TEST(CudaDoubleStreams, HostReleasesStream) {
  cuda_rig rig;
  const cu::stream on = rig.stream();
  char* const word = rig.pin(std::string(4, '\0'));
  EXPECT_EQ(driver().wait_value(on, address_of(word), 1, 0), cu::success);
  const cu::event after = rig.event();
  EXPECT_EQ(driver().record_event(after, on), cu::success);
  EXPECT_EQ(driver().query_event(after), cu::not_ready);
  std::atomic_ref(*reinterpret_cast<std::uint32_t*>(word)).store(1, std::memory_order_release);
  EXPECT_EQ(driver().synchronize_stream(on), cu::success);
  EXPECT_EQ(driver().query_event(after), cu::success);
}

struct callback_record {
  std::thread::id by;
  cu::result status = -1;
  std::atomic<int> times = 0;
};

TEST(CudaDoubleStreams, HostFunctionsRunInOrderOnAnotherThread) {
  cuda_rig rig;
  const cu::stream on = rig.stream();
  callback_record one;
  const auto callback = [](void* with) {
    auto& to = *static_cast<callback_record*>(with);
    to.by = std::this_thread::get_id();
    ++to.times;
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(driver().launch_host(on, callback, &one), cu::success);
  EXPECT_EQ(driver().synchronize_stream(on), cu::success);
  EXPECT_EQ(one.times, 3);
  EXPECT_NE(one.by, std::this_thread::get_id());
  EXPECT_EQ(rig.gpus.seen().host_functions, 3u);
}

TEST(CudaDoubleStreams, HostFunctionsMayNotCallTheDriver) {
  cuda_rig rig;
  callback_record one;
  const auto callback = [](void* with) {
    static_cast<callback_record*>(with)->status = driver().synchronize_stream(nullptr);
  };
  rig.gpus.expect_violation("cuStreamSynchronize: called from a host function or a kernel");
  EXPECT_EQ(driver().launch_host(nullptr, callback, &one), cu::success);
  EXPECT_EQ(driver().synchronize_stream(nullptr), cu::success);
  EXPECT_EQ(one.status, cu::not_permitted);
}

TEST(CudaDoubleStreams, DestroyedStreamFinishesFirst) {
  cuda_rig rig(by_hand());
  const cu::stream on = rig.stream();
  const cu::address at = rig.filled(".");
  EXPECT_EQ(driver().fill(at, 'x', 1, on), cu::success);
  rig.streams.clear();
  EXPECT_EQ(driver().destroy_stream(on), cu::success);
  EXPECT_EQ(rig.gpus.open().streams, 0u);
  rig.gpus.expect_violation("cuMemsetD8Async: the stream is destroyed");
  EXPECT_EQ(driver().fill(at, 'y', 1, on), 400);
  EXPECT_EQ(rig.gpus.run_all(), 1u);
  EXPECT_EQ(rig.text(at, 1), "x");
}

TEST(CudaDoubleStreams, CapturedWorkIsNotExecuted) {
  cuda_rig rig(by_hand());
  const cu::stream on = rig.stream();
  int is_capturing = -1;
  EXPECT_EQ(driver().is_capturing(on, &is_capturing), cu::success);
  EXPECT_EQ(is_capturing, 0);
  rig.gpus.capture(on, true);
  EXPECT_EQ(driver().is_capturing(on, &is_capturing), cu::success);
  EXPECT_EQ(is_capturing, 1);
  EXPECT_EQ(driver().fill(rig.allocate(1), 'x', 1, on), cu::success);
  EXPECT_EQ(rig.gpus.queued(), 0u);
  EXPECT_EQ(driver().synchronize_stream(on), 900);
}

TEST(CudaDoubleStreams, KernelsRunAsHostFunctions) {
  cuda_rig rig(by_hand());
  rig.gpus.add_kernel("add", {sizeof(int*), sizeof(int)},
                      [](unsigned blocks, unsigned threads, void** arguments, cuda_double& gpus) {
                        const unsigned count = blocks * threads;
                        int* const at = gpus.host(*static_cast<int**>(arguments[0]), count);
                        for (unsigned i = 0; i < count; ++i)
                          at[i] += *static_cast<int*>(arguments[1]);
                      });
  cu::module module = nullptr;
  cu::function add = nullptr;
  EXPECT_EQ(driver().load_module(&module, "// add2 sub\n"), 200);
  EXPECT_EQ(driver().load_module(&module, ".entry add(.param .u64"), cu::success);
  rig.modules.push_back(module);
  EXPECT_EQ(driver().find_function(&add, module, "sub"), 500);
  EXPECT_EQ(driver().find_function(&add, module, "add"), cu::success);

  const cu::address at = rig.filled(std::string(24, '\0'));
  int by = 5;
  cu::address of = at;
  void* arguments[] = {&of, &by};
  const auto launch = [&](unsigned threads) {
    return driver().launch(add, 2, 1, 1, threads, 1, 1, 0, nullptr, arguments, nullptr);
  };
  EXPECT_EQ(launch(3), cu::success);
  of = 0;
  by = 0;
  EXPECT_EQ(rig.gpus.run_all(), 1u);
  const int* const sums = reinterpret_cast<const int*>(rig.gpus.host(at, 24));
  EXPECT_EQ(std::vector<int>(sums, sums + 6), std::vector<int>(6, 5));
  EXPECT_EQ(rig.gpus.seen().launches, 1u);
  rig.gpus.expect_violation("cuLaunchKernel: no such grid");
  EXPECT_EQ(launch(2000), cu::invalid_value);
  rig.gpus.expect_violation("of several devices");
  rig.use(1);
  EXPECT_EQ(launch(1), 400);
  rig.use(0);

  // Out of bounds it breaks the device.
  of = at;
  EXPECT_EQ(launch(4), cu::success);
  rig.gpus.expect_violation("add: 32 bytes of which");
  EXPECT_EQ(driver().synchronize_stream(nullptr), 700);
  EXPECT_EQ(launch(1), 700);
  rig.after = 700;
}

}  // namespace
}  // namespace tandem::test
