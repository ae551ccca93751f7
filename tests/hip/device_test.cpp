#include <unistd.h>

#include <cstring>

#include "hip/rig.hpp"

namespace tandem::test {
namespace {

TEST(hip_device, copies_to_device_and_back) {
  hip_rig rig;
  accelerator& of = hip_at(1);
  buffer there(6, memory_kind::hip, 1), next(6, memory_kind::hip, 1);
  const pinned_buffer here(of, 6);
  const device_stream on(of);
  std::memcpy(here.data(), "abcdef", 6);
  of.copy(there.data(), here.data(), 6, on.get());
  of.copy(next.data(), there.data(), 6, on.get());
  of.fill(next.data() + 5, 'X', 1, on.get());
  of.copy(here.data(), next.data(), 6, on.get());
  of.copy(here.data(), nullptr, 0, on.get());
  of.finish(on.get());
  EXPECT_EQ(std::string(reinterpret_cast<char*>(here.data()), 6), "abcdeX");
  EXPECT_EQ(of.allocation_of(there.data() + 3).base, there.data());
  EXPECT_EQ(of.allocation_of(there.data() + 3).bytes, 6u);
  EXPECT_EQ(rig.gpus.seen().pageable_copies, 0u);
  EXPECT_EQ(&accelerator_of(there.view()), &of);
}

TEST(hip_device, zero_bytes_allocate_nothing) {
  const hip_rig rig;
  accelerator& of = hip_at(0);
  EXPECT_EQ(of.allocate(0), nullptr);
  EXPECT_EQ(of.allocate_pinned(0), nullptr);
  of.free(nullptr);
  of.free_pinned(nullptr);
  EXPECT_EQ(rig.gpus.calls("cuMemAlloc") + rig.gpus.calls("cuMemFree"), 0u);
}

/// HIP 6 renumbered its memory types and the flag that is required to open IPC handles.
TEST(hip_device, supports_both_memory_type_numberings) {
  for (const int version : {50221153, 60241134, 70051831}) {
    hip_on_cuda::options pretending;
    pretending.version = version;
    const hip_rig rig({}, pretending);
    accelerator& of = hip_at(0);
    const buffer there(8, memory_kind::hip, 0);
    const pinned_buffer here(of, 8);
    EXPECT_TRUE(of.owns(there.data() + 7));
    EXPECT_FALSE(of.owns(there.data() + 8));
    EXPECT_FALSE(of.owns(here.data()));
    EXPECT_FALSE(of.owns(&of));
    EXPECT_FALSE(of.owns(nullptr));
    EXPECT_FALSE(hip_at(1).owns(there.data()));
    void* const opened = hip_at(1).open(of.share(there.data()));
    hip_at(1).close(opened);
  }
}

TEST(hip_device, pins_memory_of_the_caller) {
  const hip_rig rig;
  accelerator& of = hip_at(0);
  std::string mine = "mine";
  of.pin(mine.data(), mine.size());
  EXPECT_EQ(of.device_pointer(mine.data()), mine.data());
  expect_error(refusal_of([&] { of.pin(mine.data(), 1); }), errc::device_failed,
               {"hipHostRegister(1 bytes)", "AlreadyRegistered"});
  of.unpin(mine.data());
  EXPECT_EQ(rig.gpus.open().registrations, 0u);
}

TEST(hip_device, preserves_current_device_of_caller) {
  hip_rig rig;
  rig.use(1);
  const device_stream on(hip_at(0));
  hip_on_cuda::fail("hipMalloc", 1, amd::out_of_memory);
  EXPECT_TRUE(refusal_of([] { hip_at(0).allocate(1); }));
  hip_at(0).free(hip_at(0).allocate(1));
}

TEST(hip_device, device_scopes_nest) {
  hip_rig rig;
  int now = -1;
  const auto device_now = [&] {
    rig.hip.table().get_device(&now);
    return now;
  };
  hip_at(1).enter();
  EXPECT_EQ(device_now(), 1);
  hip_at(0).enter();
  hip_at(1).free(hip_at(1).allocate(1));
  EXPECT_EQ(device_now(), 0);
  hip_at(0).leave();
  EXPECT_EQ(device_now(), 1);
  hip_at(1).leave();
  EXPECT_EQ(device_now(), 0);
  for (int i = 0; i < 16; ++i) hip_at(1).enter();
  expect_error(refusal_of([] { hip_at(1).enter(); }), errc::bad_input, {"too many nested calls"});
  for (int i = 0; i < 16; ++i) hip_at(1).leave();
}

TEST(hip_device, streams_have_separate_queues) {
  static unsigned flags = 0;
  static int priority = 0;
  hip_rig rig;
  rig.hip.table().create_stream = [](amd::stream* into, unsigned with, int at) {
    flags = with;
    priority = at;
    return hipStreamCreateWithPriority(into, with, at);
  };
  const device_stream on(hip_at(0));
  EXPECT_EQ(flags, amd::stream_non_blocking);
  EXPECT_EQ(priority, -1);
}

TEST(hip_device, events_and_stream_values_order_streams) {
  cuda_double::options as;
  as.manual = true;
  hip_rig rig(as);
  accelerator& of = hip_at(0);
  const device_stream first(of), second(of), third(of);
  const pinned_buffer word(of, 4);
  std::memset(word.data(), 0, 4);
  const accelerator::event event = of.make_event();
  of.await_value(first.get(), of.device_pointer(word.data()), 1);
  of.record(event, first.get());
  of.await(second.get(), event);
  EXPECT_FALSE(rig.gpus.step());
  EXPECT_FALSE(of.is_complete(event));
  of.write_value(third.get(), of.device_pointer(word.data()), 1);
  EXPECT_EQ(rig.gpus.run_all(), 4u);
  EXPECT_TRUE(of.is_complete(event));
  of.free_event(event);
}

TEST(hip_device, stream_capturing_a_graph_is_refused) {
  hip_rig rig;
  const device_stream on(hip_at(0));
  EXPECT_FALSE(hip_at(0).is_capturing(on.get()));
  rig.gpus.capture(static_cast<cu::stream>(on.get()), true);
  EXPECT_TRUE(hip_at(0).is_capturing(on.get()));
  rig.gpus.capture(static_cast<cu::stream>(on.get()), false);
}

TEST(hip_device, host_functions_are_called) {
  const hip_rig rig;
  accelerator& of = hip_at(1);
  const device_stream on(of);
  int called = 0;
  const auto count = [](void* with) { ++*static_cast<int*>(with); };
  of.call(on.get(), count, &called);
  of.finish(on.get());
  EXPECT_EQ(called, 1);
}

TEST(hip_device, peer_access) {
  cuda_double::options as;
  as.devices = 3;
  as.peers = {{{0, 1}}};
  const hip_rig rig(as);
  accelerator& of = hip_at(0);
  EXPECT_TRUE(of.can_access_peer(0));
  EXPECT_TRUE(of.can_access_peer(1));
  EXPECT_FALSE(of.can_access_peer(2));
  of.enable_peer_access(0);
  of.enable_peer_access(1);
  of.enable_peer_access(1);  // twice is harmless
  const buffer mine(8, memory_kind::hip, 0), theirs(8, memory_kind::hip, 1);
  const device_stream on(of);
  of.copy(mine.data(), theirs.data(), 8, on.get());
  of.finish(on.get());
  EXPECT_TRUE(refusal_of([&] { of.can_access_peer(3); }));
}

TEST(hip_device, memory_is_shared_and_opened) {
  hip_rig rig;
  accelerator& theirs = hip_at(1);
  const buffer shared(8, memory_kind::hip, 0);
  void* const opened = theirs.open(hip_at(0).share(shared.data()));
  EXPECT_NE(opened, shared.data());
  const device_stream on(theirs);
  theirs.fill(opened, 'o', 8, on.get());
  theirs.finish(on.get());
  EXPECT_EQ(*reinterpret_cast<char*>(rig.gpus.host(shared.data())), 'o');
  theirs.close(opened);
  expect_error(refusal_of([&] { theirs.open(accelerator::handle{}); }), errc::device_failed,
               {"hipIpcOpenMemHandle", "hip:1"});
}

TEST(hip_device, exports_dma_bufs_of_any_address) {
  hip_rig rig;
  accelerator& of = hip_at(0);
  const buffer memory(10'000, memory_kind::hip, 0);
  *rig.gpus.host(memory.data() + 9'999) = std::byte{'!'};
  const accelerator::dma_buf made = of.export_dma_buf(memory.data() + 5'000, 5'000);
  EXPECT_EQ(made.offset_bytes, 5'000u % 4'096u);
  char found = 0;
  EXPECT_EQ(::pread(made.descriptor, &found, 1, static_cast<off_t>(made.offset_bytes) + 4'999), 1);
  EXPECT_EQ(found, '!');
  ::close(made.descriptor);
}

TEST(hip_device, flushes_by_hip_call) {
  const hip_rig rig;
  hip_at(0).flush_rdma();
  EXPECT_EQ(rig.gpus.calls("cuFlushGPUDirectRDMAWrites"), 1u);
  EXPECT_EQ(translation::flush_register(), 0u);
}

TEST(hip_device, flushes_by_register_without_call) {
  hip_on_cuda::options pretending;
  pretending.architecture = "gfx908";
  {
    hip_rig rig({}, pretending);
    rig.hip.table().flush_rdma_writes = nullptr;
    hip_at(0).flush_rdma();
    EXPECT_EQ(translation::flush_register(), 1u);
  }
  const hip_rig rig({}, pretending);
  hip_on_cuda::fail("hipDeviceFlushGPUDirectRDMAWrites", 1, amd::not_supported);
  hip_at(0).flush_rdma();
  EXPECT_EQ(translation::flush_register(), 1u);
}

TEST(hip_device, missing_flush_is_reported) {
  hip_rig rig;
  rig.hip.table().flush_rdma_writes = nullptr;
  expect_error(refusal_of([] { hip_at(0).flush_rdma(); }), errc::unsupported_memory,
               {"hip:0 (HIP on Double H200)", "NIC"});
  EXPECT_EQ(translation::flush_register(), 0u) << "gfx942 does not need it";
}

TEST(hip_device, needs_no_flush_without_nic_writes) {
  hip_on_cuda::options pretending;
  pretending.has_dma_buf = false;
  const hip_rig rig({}, pretending);
  if (hip_at(0).facts().supports_rdma) GTEST_SKIP() << "this machine has AMD's peer memory";
  hip_at(0).flush_rdma();
  EXPECT_EQ(rig.gpus.calls("cuFlushGPUDirectRDMAWrites"), 0u);
}

TEST(hip_device, kernels_are_launched) {
  hip_rig rig;
  rig.gpus.add_kernel("set", {sizeof(int*), sizeof(int)},
                      [](unsigned blocks, unsigned threads, void** arguments, cuda_double& at) {
                        const unsigned count = blocks * threads;
                        int* const into = at.host(*static_cast<int**>(arguments[0]), count);
                        for (unsigned i = 0; i < count; ++i) {
                          into[i] = *static_cast<int*>(arguments[1]);
                        }
                      });
  accelerator& of = hip_at(0);
  const buffer memory(64, memory_kind::hip, 0);
  const device_stream on(of);
  const accelerator::module code = of.load("set");
  void* into = memory.data();
  int value = 7;
  void* arguments[] = {&into, &value};
  of.launch(of.find(code, "set"), 4, 4, 0, on.get(), arguments);
  of.finish(on.get());
  EXPECT_EQ(rig.gpus.host(reinterpret_cast<int*>(memory.data()), 16)[15], 7);
  expect_error(refusal_of([&] { of.find(code, "missing"); }), errc::device_failed,
               {"hipModuleGetFunction(missing)", "hipErrorNotFound"});
  of.unload(code);
}

}  // namespace
}  // namespace tandem::test
