#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/accelerator/accelerator_rig.hpp"

namespace tandem::test {
namespace {

/// The driver function behind each accelerator call, and how to call it.
struct failing {
  const char* function;
  std::function<void(accelerator&)> call;
};

struct called_stage {
  explicit called_stage(accelerator& of)
      : memory(64, of.kind(), of.device()), host(of, 64), on(of), event(of.make_event()) {}
  buffer memory;
  pinned_buffer host;
  device_stream on;
  accelerator::event event;
};

std::vector<failing> all_calls(called_stage& with, accelerator::handle shared,
                               accelerator::module code) {
  void* const at = with.memory.data();
  void* const word = with.host.data();
  const accelerator::stream on = with.on.get();
  static int mine = 0;
  return {
      {"cuCtxPushCurrent", [](accelerator& of) { of.allocate(8); }},
      {"cuMemAlloc", [](accelerator& of) { of.allocate(8); }},
      {"cuMemHostAlloc", [](accelerator& of) { of.allocate_pinned(8); }},
      {"cuMemHostRegister", [](accelerator& of) { of.pin(&mine, sizeof(mine)); }},
      {"cuMemHostGetDevicePointer", [=](accelerator& of) { of.device_pointer(word); }},
      {"cuMemGetAddressRange", [=](accelerator& of) { of.allocation_of(at); }},
      {"cuStreamCreateWithPriority", [](accelerator& of) { of.make_stream(); }},
      {"cuMemcpyAsync", [=](accelerator& of) { of.copy(at, word, 8, on); }},
      {"cuMemcpyBatchAsync",
       [=](accelerator& of) {
         const accelerator::piece two[] = {{at, word, 4}, {word, at, 4}};
         of.copy_all(two, on);
       }},
      {"cuMemsetD8Async", [=](accelerator& of) { of.fill(at, 0, 8, on); }},
      {"cuStreamSynchronize", [=](accelerator& of) { of.finish(on); }},
      {"cuStreamIsCapturing", [=](accelerator& of) { of.is_capturing(on); }},
      {"cuLaunchHostFunc",
       [=](accelerator& of) {
         const auto never = [](void*) { ADD_FAILURE() << "refused, and called"; };
         of.call(on, never, nullptr);
       }},
      {"cuStreamWaitValue32", [=](accelerator& of) { of.await_value(on, word, 1); }},
      {"cuStreamWriteValue32", [=](accelerator& of) { of.write_value(on, word, 1); }},
      {"cuEventCreate", [](accelerator& of) { of.make_event(); }},
      {"cuEventRecord", [=, &with](accelerator& of) { of.record(with.event, on); }},
      {"cuStreamWaitEvent", [=, &with](accelerator& of) { of.await(on, with.event); }},
      {"cuEventQuery", [&with](accelerator& of) { of.is_complete(with.event); }},
      {"cuDeviceCanAccessPeer", [](accelerator& of) { of.can_access_peer(1); }},
      {"cuCtxEnablePeerAccess", [](accelerator& of) { of.enable_peer_access(1); }},
      {"cuIpcGetMemHandle", [=](accelerator& of) { of.share(at); }},
      {"cuIpcOpenMemHandle", [=](accelerator& of) { of.open(shared); }},
      {"cuMemGetHandleForAddressRange", [=](accelerator& of) { of.export_dma_buf(at, 8); }},
      {"cuFlushGPUDirectRDMAWrites", [](accelerator& of) { of.flush_rdma(); }},
      {"cuModuleLoadData", [](accelerator& of) { of.load("nothing"); }},
      {"cuModuleGetFunction", [=](accelerator& of) { of.find(code, "nothing"); }},
      {"cuLaunchKernel",
       [=](accelerator& of) { of.launch(of.find(code, "nothing"), 1, 1, 0, on, nullptr); }},
  };
}

TEST(accelerator_errors, failing_calls_report_and_release_everything) {
  cuda_double gpus;
  gpus.add_kernel("nothing", {}, [](unsigned, unsigned, void**, cuda_double&) {});
  accelerator& of = cuda_at(0);
  called_stage with(of);
  const accelerator::module code = of.load("nothing");
  const cuda_double::objects before = gpus.open();
  const cuda_double::traffic done = gpus.seen();
  for (const failing& each : all_calls(with, of.share(with.memory.data()), code)) {
    SCOPED_TRACE(each.function);
    gpus.fail(each.function, 1, cu::not_permitted);
    expect_error(failure_of_call([&] { each.call(of); }), errc::device_failed,
                 {each.function, "cuda:0 (Double H200)", "CUDA_ERROR_NOT_PERMITTED",
                  "operation not permitted"});
    EXPECT_TRUE(gpus.open() == before);
  }
  of.finish(with.on.get());
  EXPECT_EQ(gpus.seen().copies + gpus.seen().fills, done.copies + done.fills);
  of.free_event(with.event);
  of.unload(code);
}

TEST(accelerator_errors, unnamed_result_is_shown_as_number) {
  cuda_double gpus;
  gpus.fail("cuMemAlloc", 1, 12345);
  expect_error(failure_of_call([] { cuda_at(0).allocate(8); }), errc::device_failed,
               {"cuMemAlloc(8 bytes)", "CUDA error 12345"});
}

TEST(accelerator_errors, release_never_throws) {
  cuda_double gpus;
  gpus.add_kernel("nothing", {}, [](unsigned, unsigned, void**, cuda_double&) {});
  accelerator& of = cuda_at(0);
  const char* const functions[] = {"cuMemFree",       "cuMemFreeHost",  "cuMemHostUnregister",
                                   "cuStreamDestroy", "cuEventDestroy", "cuIpcCloseMemHandle",
                                   "cuModuleUnload"};
  for (const char* each : functions) gpus.fail(each, 1, cu::deinitialized);
  std::string mine = "mine";
  of.pin(mine.data(), mine.size());
  void* const memory = of.allocate(8);
  void* const opened = of.open(of.share(memory));
  of.close(opened);
  of.free(memory);
  of.free_pinned(of.allocate_pinned(8));
  of.unpin(mine.data());
  of.free_stream(of.make_stream());
  of.free_event(of.make_event());
  of.unload(of.load("nothing"));
}

TEST(accelerator_errors, objects_may_outlive_the_driver) {
  std::optional<cuda_double> gpus;
  gpus.emplace();
  accelerator& of = cuda_at(0);
  void* const memory = of.allocate(8);
  of.free(memory);
  gpus.reset();
  of.free(memory);
  of.free_stream(&of);
  EXPECT_FALSE(of.owns(memory));
  expect_error(failure_of_call([&] { of.allocate(8); }), errc::device_failed,
               {"CUDA_ERROR_DEINITIALIZED"});
}

TEST(accelerator_errors, refused_in_forked_child) {
  const cuda_double gpus;
  accelerator& of = cuda_at(0);
  of.free(of.allocate(8));
  const pid_t child = ::fork();
  if (child == 0) {
    const auto failed = failure_of_call([&] { of.allocate(8); });
    of.free(&of);
    const bool is_reported = failed && failed->code() == errc::used_after_fork &&
                             std::string(failed->what()).find("is a fork of") != std::string::npos;
    ::_exit(is_reported ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(accelerator_errors, failed_buffer_allocation_leaks_nothing) {
  cuda_double gpus;
  const auto make = [] { buffer(8, memory_kind::cuda, 1); };
  for (const char* each : {"cuMemAlloc", "cuStreamCreateWithPriority", "cuMemsetD8Async"}) {
    gpus.fail(each, 1, cu::out_of_memory);
    expect_error(failure_of_call(make), errc::device_failed,
                 {each, "cuda:1 (Double H200)", "out of memory"});
  }
  gpus.break_device(1);
  expect_error(failure_of_call(make), errc::device_failed,
               {"cuda:1 (Double H200)", "CUDA_ERROR_LAUNCH_FAILED", "compute-sanitizer"});
}

}  // namespace
}  // namespace tandem::test
