#include <gtest/gtest-spi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>

#include "doubles/cuda/rig.hpp"

namespace tandem::test {
namespace {

TEST(CudaDoubleFaults, CountsCallsAndInjectsFailures) {
  cuda_rig rig;
  rig.gpus.fail("cuMemAlloc_v2", 2, cu::out_of_memory);
  rig.gpus.fail("fill", 1, 999);
  const cu::address at = rig.allocate(8);
  cu::address into = 0;
  EXPECT_EQ(driver().allocate(&into, 8), cu::out_of_memory);
  EXPECT_EQ(into, 0u);
  rig.allocate(8);
  EXPECT_EQ(driver().fill(at, 0, 8, nullptr), 999);
  EXPECT_EQ(driver().fill(at, 0, 8, nullptr), cu::success);
  EXPECT_EQ(driver().synchronize_stream(nullptr), cu::success);
  EXPECT_EQ(rig.gpus.calls("cuMemAlloc"), 3u);
  EXPECT_EQ(rig.gpus.calls("allocate"), 3u);
  EXPECT_EQ(rig.gpus.calls("cuLaunchKernel"), 0u);
  EXPECT_NONFATAL_FAILURE(rig.gpus.calls("cuMemAllocate"), "no function cuMemAllocate");
}

TEST(CudaDoubleFaults, FailingFreeStillFrees) {
  cuda_rig rig;
  const cu::address at = rig.allocate(8);
  rig.memory.clear();
  rig.gpus.fail("cuMemFree", 1, 999);
  EXPECT_EQ(driver().free(at), 999);
  EXPECT_EQ(rig.gpus.open().allocations, 0u);
}

TEST(CudaDoubleFaults, BrokenDeviceStaysBroken) {
  cuda_rig rig(by_hand());
  const cu::stream on = rig.stream();
  const cu::event before = rig.event(), after = rig.event();
  const cu::address at = rig.filled("..");
  rig.gpus.break_device(0, 2);
  EXPECT_EQ(driver().fill(at, '1', 1, on), cu::success);
  EXPECT_EQ(driver().record_event(before, on), cu::success);
  EXPECT_EQ(driver().fill(at + 1, '2', 1, on), cu::success);
  EXPECT_EQ(driver().record_event(after, on), cu::success);
  const auto called = [](void*) { ADD_FAILURE() << "a host function after the failure"; };
  EXPECT_EQ(driver().launch_host(on, called, nullptr), cu::success);
  EXPECT_EQ(rig.gpus.run_all(), 3u);
  EXPECT_EQ(rig.text(at, 2), "1.");
  EXPECT_EQ(driver().query_event(before), 719);
  EXPECT_EQ(driver().query_event(after), 719);
  EXPECT_EQ(driver().synchronize_stream(on), 719);
  cu::address into = 0;
  EXPECT_EQ(driver().allocate(&into, 1), 719);
  // The other device keeps working.
  rig.use(1);
  EXPECT_EQ(driver().fill(rig.allocate(1), '1', 1, nullptr), cu::success);
  EXPECT_EQ(driver().synchronize_stream(nullptr), cu::success);
  rig.use(0);
  rig.after = 719;
}

TEST(CudaDoubleFaults, WaitersOfBrokenDeviceReturn) {
  cuda_rig rig;
  const cu::event event = rig.event();
  char* const word = rig.pin(std::string(4, '\0'));
  EXPECT_EQ(driver().wait_value(nullptr, address_of(word), 1, 0), cu::success);
  EXPECT_EQ(driver().record_event(event, nullptr), cu::success);
  rig.use(1);
  const cu::stream other = rig.stream();
  EXPECT_EQ(driver().wait_event(other, event, 0), cu::success);
  rig.use(0);
  rig.gpus.break_device(0);
  EXPECT_EQ(driver().launch_host(
                rig.stream(), [](void*) {}, nullptr),
            cu::success);
  rig.use(1);
  EXPECT_EQ(driver().synchronize_stream(other), cu::success);
  EXPECT_EQ(driver().query_event(event), 719);
}

TEST(CudaDoubleFaults, LeaksFailTheTest) {
  const auto leave_open = [](auto make, cuda_double::objects as) {
    cuda_double gpus;
    cu::context context = nullptr;
    EXPECT_EQ(driver().retain_primary(&context, 0), cu::success);
    EXPECT_EQ(driver().push_context(context), cu::success);
    make();
    EXPECT_EQ(driver().pop_context(nullptr), cu::success);
    EXPECT_TRUE(gpus.open() == as);
  };
  static char here[8];
  EXPECT_NONFATAL_FAILURE(leave_open(
                              [] {
                                cu::address into = 0;
                                driver().allocate(&into, 100);
                              },
                              {.allocations = 1, .device_bytes = 100}),
                          "1 allocations (100 bytes)");
  EXPECT_NONFATAL_FAILURE(leave_open(
                              [] {
                                void* into = nullptr;
                                driver().allocate_host(&into, 100, 0);
                              },
                              {.pinned = 1}),
                          "1 of pinned memory");
  EXPECT_NONFATAL_FAILURE(
      leave_open([] { driver().register_host(here, 8, 0); }, {.registrations = 1}),
      "1 registrations");
  EXPECT_NONFATAL_FAILURE(leave_open(
                              [] {
                                cu::stream into = nullptr;
                                driver().create_stream(&into, 0, 0);
                              },
                              {.streams = 1}),
                          "1 streams");
  EXPECT_NONFATAL_FAILURE(leave_open(
                              [] {
                                cu::event into = nullptr;
                                driver().create_event(&into, 0);
                              },
                              {.events = 1}),
                          "1 events");
  EXPECT_NONFATAL_FAILURE(leave_open(
                              [] {
                                cu::context context = nullptr;
                                driver().retain_primary(&context, 0);
                                driver().push_context(context);
                              },
                              {.pushed_contexts = 1}),
                          "1 pushed contexts");
  EXPECT_NONFATAL_FAILURE(
      {
        cuda_double gpus;
        gpus.add_kernel("k", {}, [](unsigned, unsigned, void**, cuda_double&) {});
        cu::context context = nullptr;
        driver().retain_primary(&context, 0);
        driver().push_context(context);
        cu::module into = nullptr;
        driver().load_module(&into, "k");
        driver().pop_context(nullptr);
      },
      "1 modules");
}

TEST(CudaDoubleFaults, UnexpectedMisuseFailsTheTest) {
  EXPECT_NONFATAL_FAILURE(
      {
        cuda_rig rig;
        EXPECT_EQ(driver().fill(1, 0, 1, nullptr), cu::invalid_value);
      },
      "misuse: cuMemsetD8Async: 0x1 is pageable");
  EXPECT_NONFATAL_FAILURE(
      {
        cuda_rig rig;
        rig.gpus.expect_violation("something else");
      },
      "expected misuse that did not occur: something else");
  EXPECT_NONFATAL_FAILURE(
      {
        cuda_rig rig;
        rig.gpus.fail("cuMemAlloc", 1, cu::out_of_memory);
      },
      "never called: cuMemAlloc");
  EXPECT_NONFATAL_FAILURE(
      {
        cuda_rig rig;
        char* const word = rig.pin(std::string(4, '\0'));
        EXPECT_EQ(driver().wait_value(rig.stream(), address_of(word), 1, 0), cu::success);
      },
      "cuStreamWaitValue32");
}

TEST(CudaDoubleFaults, DetectsStaleHandles) {
  cuda_rig rig;
  const cu::event event = rig.event();
  EXPECT_EQ(driver().destroy_event(event), cu::success);
  rig.events.clear();
  const cu::address at = rig.allocate(1);
  rig.free(at);
  rig.gpus.expect_violation("cuEventRecord: the event is destroyed");
  rig.gpus.expect_violation("cuEventDestroy: the event is destroyed");
  rig.gpus.expect_violation("cuEventQuery: the event is destroyed");
  rig.gpus.expect_violation("cuMemFree: ");
  rig.gpus.expect_violation("cuModuleUnload: it is unloaded already");
  EXPECT_EQ(driver().record_event(event, nullptr), 400);
  EXPECT_EQ(driver().destroy_event(event), 400);
  EXPECT_EQ(driver().query_event(event), 400);
  EXPECT_EQ(driver().free(at), cu::invalid_value);
  EXPECT_EQ(driver().unload_module(nullptr), 400);
}

TEST(CudaDoubleFaults, FailsAfterShutdownAndInForkedChild) {
  const detail::cuda* kept = nullptr;
  {
    cuda_rig rig;
    kept = &driver();
    const pid_t child = ::fork();
    if (child == 0) {
      int count = 0;
      ::_exit(kept->device_count(&count));
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), cu::not_initialized);
  }
  int count = 0;
  EXPECT_EQ(kept->device_count(&count), cu::deinitialized);
  const char* text = nullptr;
  EXPECT_EQ(kept->error_name(cu::deinitialized, &text), cu::success);
  EXPECT_STREQ(text, "CUDA_ERROR_DEINITIALIZED");
}

/// Every thread has its own stream on one of the devices; random delays vary the order.
TEST(CudaDoubleFaults, IsThreadSafe) {
  cuda_double::options as;
  as.max_delay = std::chrono::microseconds(50);
  cuda_rig rig(as);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      EXPECT_EQ(driver().push_context(rig.contexts[static_cast<std::size_t>(i % 2)]), cu::success);
      cu::stream on = nullptr;
      cu::address at = 0;
      void* pinned = nullptr;
      EXPECT_EQ(driver().create_stream(&on, i < 2 ? 0 : 1, 0), cu::success);
      EXPECT_EQ(driver().allocate(&at, 64), cu::success);
      EXPECT_EQ(driver().allocate_host(&pinned, 64, 0), cu::success);
      auto* const bytes = static_cast<unsigned char*>(pinned);
      for (unsigned char round = 0; round < 50; ++round) {
        std::memset(bytes, round, 32);
        EXPECT_EQ(driver().copy(at, address_of(pinned), 32, on), cu::success);
        EXPECT_EQ(driver().fill(at + 31, 0xff, 1, round % 8 == 0 ? nullptr : on), cu::success);
        if (round % 8 == 0) {
          EXPECT_EQ(driver().synchronize_stream(nullptr), cu::success);
        }
        EXPECT_EQ(driver().copy(address_of(pinned) + 32, at, 32, on), cu::success);
        EXPECT_EQ(driver().synchronize_stream(on), cu::success);
        EXPECT_EQ(bytes[32], round);
      }
      EXPECT_EQ(driver().destroy_stream(on), cu::success);
      EXPECT_EQ(driver().free(at), cu::success);
      EXPECT_EQ(driver().free_host(pinned), cu::success);
      EXPECT_EQ(driver().pop_context(nullptr), cu::success);
    });
  }
  for (std::thread& each : threads) each.join();
}

}  // namespace
}  // namespace tandem::test
