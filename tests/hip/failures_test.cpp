#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "hip/rig.hpp"

namespace tandem::test {
namespace {

/// The driver function behind each accelerator call, and how to call it.
struct failing {
  const char* function;
  std::function<void(accelerator&)> call;
};

struct stage {
  explicit stage(accelerator& of)
      : memory(64, of.kind(), of.device()), host(of, 64), on(of), event(of.make_event()) {}
  buffer memory;
  pinned_buffer host;
  device_stream on;
  accelerator::event event;
};

std::vector<failing> memory_calls(stage& with, accelerator::handle shared) {
  void* const at = with.memory.data();
  void* const word = with.host.data();
  static int mine = 0;
  return {
      {"hipGetDevice", [](accelerator& of) { of.allocate(8); }},
      {"hipSetDevice", [](accelerator& of) { of.allocate(8); }},
      {"hipSetDevice", [](accelerator& of) { of.enter(); }},
      {"hipMalloc", [](accelerator& of) { of.allocate(8); }},
      {"hipHostMalloc", [](accelerator& of) { of.allocate_pinned(8); }},
      {"hipHostRegister", [](accelerator& of) { of.pin(&mine, sizeof(mine)); }},
      {"hipHostGetDevicePointer", [=](accelerator& of) { of.device_pointer(word); }},
      {"hipMemGetAddressRange", [=](accelerator& of) { of.allocation_of(at); }},
      {"hipDeviceCanAccessPeer", [](accelerator& of) { of.can_access_peer(0); }},
      {"hipDeviceEnablePeerAccess", [](accelerator& of) { of.enable_peer_access(0); }},
      {"hipIpcGetMemHandle", [=](accelerator& of) { of.share(at); }},
      {"hipIpcOpenMemHandle", [=](accelerator& of) { of.open(shared); }},
      {"hipDeviceFlushGPUDirectRDMAWrites", [](accelerator& of) { of.flush_rdma(); }},
      {"hipModuleLoadData", [](accelerator& of) { of.load("nothing"); }},
  };
}

std::vector<failing> stream_calls(stage& with, accelerator::module code) {
  void* const at = with.memory.data();
  void* const word = with.host.data();
  const accelerator::stream on = with.on.get();
  return {
      {"hipStreamCreateWithPriority", [](accelerator& of) { of.make_stream(); }},
      {"hipMemcpyAsync", [=](accelerator& of) { of.copy(at, word, 8, on); }},
      {"hipMemsetAsync", [=](accelerator& of) { of.fill(at, 0, 8, on); }},
      {"hipStreamSynchronize", [=](accelerator& of) { of.finish(on); }},
      {"hipStreamIsCapturing", [=](accelerator& of) { of.is_capturing(on); }},
      {"hipLaunchHostFunc",
       [=](accelerator& of) {
         const auto never = [](void*) { ADD_FAILURE() << "refused, and called"; };
         of.call(on, never, nullptr);
       }},
      {"hipStreamWaitValue32", [=](accelerator& of) { of.await_value(on, word, 1); }},
      {"hipStreamWriteValue32", [=](accelerator& of) { of.write_value(on, word, 1); }},
      {"hipEventCreateWithFlags", [](accelerator& of) { of.make_event(); }},
      {"hipEventRecord", [=, &with](accelerator& of) { of.record(with.event, on); }},
      {"hipStreamWaitEvent", [=, &with](accelerator& of) { of.await(on, with.event); }},
      {"hipEventQuery", [&with](accelerator& of) { of.is_complete(with.event); }},
      {"hipModuleGetFunction", [=](accelerator& of) { of.find(code, "nothing"); }},
      {"hipModuleLaunchKernel",
       [=](accelerator& of) { of.launch(of.find(code, "nothing"), 1, 1, 0, on, nullptr); }},
  };
}

TEST(hip_failures, failing_calls_report_and_release_everything) {
  hip_rig rig;
  rig.gpus.add_kernel("nothing", {}, [](unsigned, unsigned, void**, cuda_double&) {});
  accelerator& of = hip_at(1);
  stage with(of);
  const accelerator::module code = of.load("nothing");
  const cuda_double::objects before = rig.gpus.open();
  const cuda_double::traffic done = rig.gpus.seen();
  std::vector<failing> all = memory_calls(with, of.share(with.memory.data()));
  for (failing& each : stream_calls(with, code)) all.push_back(std::move(each));
  for (const failing& each : all) {
    SCOPED_TRACE(each.function);
    hip_on_cuda::fail(each.function, 1, amd::launch_failure);
    expect_error(refusal_of([&] { each.call(of); }), errc::device_failed,
                 {each.function, "hip:1 (HIP on Double H200)", "hipErrorLaunchFailure",
                  "AMD_SERIALIZE_KERNEL"});
    EXPECT_TRUE(rig.gpus.open() == before);
    EXPECT_EQ(rig.hip.table().last_error(), amd::success);
  }
  of.finish(with.on.get());
  EXPECT_EQ(rig.gpus.seen().copies + rig.gpus.seen().fills, done.copies + done.fills);
  of.free_event(with.event);
  of.unload(code);
}

TEST(hip_failures, dma_buf_export_failure) {
  const hip_rig rig;
  const buffer memory(64, memory_kind::hip, 0);
  hip_on_cuda::fail("hsa_amd_portable_export_dmabuf", 1, 0x1001);
  expect_error(refusal_of([&] { hip_at(0).export_dma_buf(memory.data(), 8); }), errc::device_failed,
               {"hsa_amd_portable_export_dmabuf", "hip:0 (HIP on Double H200)", "0x1001"});
}

TEST(hip_failures, advice_matches_the_failure) {
  const hip_rig rig;
  struct advised {
    amd::result code;
    const char* words;
  };
  for (const advised& each :
       {advised{amd::out_of_memory, "rocm-smi"}, advised{amd::not_supported, "container"},
        advised{amd::invalid_value, "address"}, advised{amd::not_found, "address"},
        advised{amd::invalid_context, "this process exported"},
        advised{amd::no_binary_for_gpu, "architecture"}, advised{amd::illegal_address, "earlier"},
        advised{12345, "HIP on Double"}}) {
    hip_on_cuda::fail("hipMalloc", 1, each.code);
    expect_error(refusal_of([] { hip_at(0).allocate(8); }), errc::device_failed,
                 {"hipMalloc(8 bytes)", each.words});
  }
}

TEST(hip_failures, release_never_throws) {
  hip_rig rig;
  rig.gpus.add_kernel("nothing", {}, [](unsigned, unsigned, void**, cuda_double&) {});
  accelerator& of = hip_at(1);
  std::string mine = "mine";
  of.pin(mine.data(), mine.size());
  void* const memory = of.allocate(8);
  void* const pinned = of.allocate_pinned(8);
  const accelerator::stream stream = of.make_stream();
  const accelerator::event event = of.make_event();
  const accelerator::module code = of.load("nothing");
  void* const opened = of.open(of.share(memory));
  const auto release_all = [&] {
    of.close(opened);
    of.free(memory);
    of.free_pinned(pinned);
    of.unpin(mine.data());
    of.free_stream(stream);
    of.free_event(event);
    of.unload(code);
  };
  for (const char* const each : {"hipFree", "hipHostFree", "hipHostUnregister", "hipStreamDestroy",
                                 "hipEventDestroy", "hipIpcCloseMemHandle", "hipModuleUnload"}) {
    hip_on_cuda::fail(each, 1, 4);  // deinitialized
  }
  release_all();
  EXPECT_EQ(rig.hip.table().last_error(), amd::success);
  EXPECT_EQ(rig.gpus.open().allocations, 1u) << "nothing was accessed";
  release_all();
}

TEST(hip_failures, objects_may_outlive_the_driver) {
  std::optional<cuda_double> gpus;
  gpus.emplace();
  hip_on_cuda hip;
  accelerator& of = hip_at(0);
  void* const memory = of.allocate(8);
  of.free(memory);
  gpus.reset();
  of.free(memory);
  of.free_stream(&of);
  EXPECT_FALSE(of.owns(memory));
  EXPECT_EQ(hip.table().last_error(), amd::success) << "an error is left to the user";
}

TEST(hip_failures, refused_in_forked_child) {
  const hip_rig rig;
  accelerator& of = hip_at(0);
  of.free(of.allocate(8));
  const pid_t child = ::fork();
  if (child == 0) {
    const auto failed = refusal_of([&] { of.allocate(8); });
    of.free(&of);
    const bool is_reported = failed && failed->code() == errc::used_after_fork &&
                             std::string(failed->what()).find("is a fork of") != std::string::npos;
    ::_exit(is_reported ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace tandem::test
