#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <tandem/accelerator.hpp>

#include "engine/accelerator/accelerator_rig.hpp"
#include "support/environment_variable.hpp"

namespace tandem::test {
namespace {

TEST(accelerator, facts_come_from_the_driver) {
  cuda_double::options as;
  as.devices = 3;
  as.memory_bytes = 141 << 20;
  const cuda_double gpus(as);
  const accelerators all = find_accelerators(memory_kind::cuda);
  ASSERT_EQ(all.found.size(), 3u);
  EXPECT_EQ(all.why_none, "");
  const accelerator_facts& facts = all.found[1]->facts();
  EXPECT_EQ(all.found[1], &cuda_at(1));
  EXPECT_EQ(all.found[1]->text(), "cuda:1 (Double H200)");
  EXPECT_EQ(facts.kind, memory_kind::cuda);
  EXPECT_EQ(facts.device, 1);
  EXPECT_EQ(facts.pci, "00ff:3c:00.0");
  EXPECT_EQ(facts.uuid, "01f1f2f3f4f5f6f7f8f9fafbfcfdfeff");
  EXPECT_EQ(facts.architecture, "sm_90");
  EXPECT_EQ(facts.driver, "12.4");
  EXPECT_EQ(facts.memory_bytes, std::size_t{141} << 20);
  EXPECT_EQ(facts.multiprocessors, 132);
  EXPECT_EQ(facts.copy_engines, 3);
  EXPECT_EQ(facts.numa_node, -1);
  EXPECT_TRUE(facts.has_stream_memory_ops);
  EXPECT_TRUE(facts.exports_dma_buf);
  EXPECT_TRUE(facts.supports_rdma);
  EXPECT_TRUE(facts.needs_rdma_flush);
}

TEST(accelerator, facts_of_a_less_capable_device) {
  cuda_double::options as;
  as.stream_values = as.dma_buf = as.gpu_direct = false;
  const cuda_double gpus(as);
  const accelerator_facts& facts = cuda_at(0).facts();
  EXPECT_FALSE(facts.has_stream_memory_ops);
  EXPECT_FALSE(facts.exports_dma_buf);
  EXPECT_FALSE(facts.supports_rdma);
  EXPECT_FALSE(facts.needs_rdma_flush);
}

/// A stream that waits would hold up the others of its hardware queue.
TEST(accelerator, streams_that_share_a_queue_do_not_wait) {
  for (const bool mps : {false, true}) {
    for (const auto& [queues, wait] :
         {std::pair{"1", false}, {"7", false}, {"8", true}, {"", !mps}}) {
      const environment_variable given("CUDA_DEVICE_MAX_CONNECTIONS", queues);
      cuda_double::options as;
      as.mps = mps;
      const cuda_double gpus(as);
      const accelerator_facts& facts = cuda_at(0).facts();
      EXPECT_EQ(facts.has_stream_memory_ops, wait) << queues << (mps ? " by MPS" : "");
      EXPECT_EQ(facts.runs_processes_at_once, mps);
    }
  }
}

TEST(accelerator, an_old_driver_lacks_functions) {
  cuda_double gpus;
  gpus.table().export_range = nullptr;
  gpus.table().flush_rdma_writes = nullptr;
  EXPECT_FALSE(cuda_at(0).facts().exports_dma_buf);
  cuda_at(0).flush_rdma();
  expect_error(failure_of_call([] { cuda_at(0).export_dma_buf(nullptr, 1); }),
               errc::unsupported_memory, {"cuda:0 (Double H200)", "dma-buf"});
}

TEST(accelerator, no_devices) {
  cuda_double::options as;
  as.devices = 0;
  const cuda_double gpus(as);
  const accelerators all = find_accelerators(memory_kind::cuda);
  EXPECT_TRUE(all.found.empty());
  EXPECT_NE(all.why_none, "");
  expect_error(failure_of_call([] { cuda_at(0); }), errc::unsupported_memory);
}

TEST(accelerator, missing_device) {
  const cuda_double gpus;
  for (const int device : {-1, 2}) {
    expect_error(failure_of_call([&] { cuda_at(device); }), errc::unsupported_memory,
                 {"no device", std::to_string(device), "cuda", "there are 2"});
  }
}

TEST(accelerator, copies_to_device_and_back) {
  cuda_double gpus;
  accelerator& of = cuda_at(1);
  buffer there(6, memory_kind::cuda, 1), next(6, memory_kind::cuda, 1);
  const pinned_buffer here(of, 6);
  const device_stream on(of);
  EXPECT_EQ(std::string(reinterpret_cast<char*>(gpus.host(there.data(), 6)), 6),
            std::string(6, '\0'));
  std::memcpy(here.data(), "abcdef", 6);
  of.copy(there.data(), here.data(), 6, on.get());
  of.copy(next.data(), there.data(), 6, on.get());
  of.fill(next.data() + 5, 'X', 1, on.get());
  of.copy(here.data(), next.data(), 6, on.get());
  of.copy(here.data(), nullptr, 0, on.get());
  of.finish(on.get());
  EXPECT_EQ(std::string(reinterpret_cast<char*>(here.data()), 6), "abcdeX");
  EXPECT_TRUE(of.owns(there.data() + 5));
  EXPECT_FALSE(of.owns(there.data() + 6));
  EXPECT_FALSE(of.owns(here.data()));
  EXPECT_FALSE(of.owns(&gpus));
  EXPECT_FALSE(cuda_at(0).owns(there.data()));
  EXPECT_EQ(of.allocation_of(there.data() + 3).base, there.data());
  EXPECT_EQ(of.allocation_of(there.data() + 3).bytes, 6u);
  EXPECT_EQ(gpus.seen().pageable_copies, 0u);
  EXPECT_EQ(&accelerator_of(there.view()), &of);
}

TEST(accelerator, zero_bytes_allocate_nothing) {
  const cuda_double gpus;
  accelerator& of = cuda_at(0);
  EXPECT_EQ(of.allocate(0), nullptr);
  EXPECT_EQ(of.allocate_pinned(0), nullptr);
  of.free(nullptr);
  of.free_pinned(nullptr);
  EXPECT_EQ(gpus.calls("cuMemAlloc") + gpus.calls("cuMemFree"), 0u);
}

TEST(accelerator, pins_memory_of_the_caller) {
  const cuda_double gpus;
  accelerator& of = cuda_at(0);
  std::string mine = "mine";
  of.pin(mine.data(), mine.size());
  EXPECT_EQ(of.device_pointer(mine.data()), mine.data());
  expect_error(failure_of_call([&] { of.pin(mine.data(), 1); }), errc::device_failed,
               {"cuMemHostRegister(1 bytes)", "ALREADY_REGISTERED"});
  of.unpin(mine.data());
  EXPECT_EQ(gpus.open().registrations, 0u);
}

TEST(accelerator, preserves_current_device_of_caller) {
  cuda_double gpus;
  const detail::cuda& driver = gpus.table();
  cu::context one = nullptr, now = nullptr;
  ASSERT_EQ(driver.retain_primary(&one, 1), cu::success);
  ASSERT_EQ(driver.push_context(one), cu::success);
  {
    const device_stream on(cuda_at(0));
    gpus.fail("cuMemAlloc", 1, cu::out_of_memory);
    EXPECT_TRUE(failure_of_call([] { cuda_at(0).allocate(1); }));
    EXPECT_EQ(gpus.open().pushed_contexts, 1u);
  }
  EXPECT_EQ(driver.pop_context(&now), cu::success);
  EXPECT_EQ(now, one);
}

TEST(accelerator, events_and_stream_values_order_streams) {
  cuda_double::options as;
  as.manual = true;
  cuda_double gpus(as);
  accelerator& of = cuda_at(0);
  const device_stream first(of), second(of);
  const pinned_buffer word(of, 4);
  std::memset(word.data(), 0, 4);
  const accelerator::event event = of.make_event();
  of.await_value(first.get(), of.device_pointer(word.data()), 1);
  of.record(event, first.get());
  of.await(second.get(), event);
  EXPECT_FALSE(gpus.step());
  EXPECT_FALSE(of.is_complete(event));
  const device_stream third(of);
  of.write_value(third.get(), of.device_pointer(word.data()), 1);
  EXPECT_EQ(gpus.run_all(), 4u);
  EXPECT_TRUE(of.is_complete(event));
  of.free_event(event);
}

TEST(accelerator, host_functions_are_called) {
  const cuda_double gpus;
  accelerator& of = cuda_at(1);
  const device_stream on(of);
  int called = 0;
  of.call(
      on.get(), [](void* with) { ++*static_cast<int*>(with); }, &called);
  of.finish(on.get());
  EXPECT_EQ(called, 1);
}

TEST(accelerator, peer_access) {
  cuda_double::options as;
  as.devices = 3;
  as.peers = {{{0, 1}}};
  cuda_double gpus(as);
  accelerator& of = cuda_at(0);
  EXPECT_TRUE(of.can_access_peer(0));
  EXPECT_TRUE(of.can_access_peer(1));
  EXPECT_FALSE(of.can_access_peer(2));
  EXPECT_EQ(gpus.calls("cuDevicePrimaryCtxRetain"), 0U) << "a query makes no context";
  of.enable_peer_access(0);
  of.enable_peer_access(1);
  of.enable_peer_access(1);  // twice is harmless
  const buffer mine(8, memory_kind::cuda, 0), theirs(8, memory_kind::cuda, 1);
  const device_stream on(of);
  of.copy(mine.data(), theirs.data(), 8, on.get());
  of.finish(on.get());
  EXPECT_TRUE(failure_of_call([&] { of.can_access_peer(3); }));
}

TEST(accelerator, memory_is_shared_and_opened) {
  cuda_double gpus;
  accelerator& mine = cuda_at(0);
  accelerator& theirs = cuda_at(1);
  const buffer shared(8, memory_kind::cuda, 0);
  const accelerator::handle handle = mine.share(shared.data());
  void* const opened = theirs.open(handle);
  EXPECT_NE(opened, shared.data());
  EXPECT_TRUE(failure_of_call([&] { theirs.open(handle); }));
  const device_stream on(theirs);
  theirs.fill(opened, 'o', 8, on.get());
  theirs.finish(on.get());
  EXPECT_EQ(*reinterpret_cast<char*>(gpus.host(shared.data())), 'o');
  theirs.close(opened);
  expect_error(failure_of_call([&] { theirs.open(accelerator::handle{}); }), errc::device_failed,
               {"cuIpcOpenMemHandle", "cuda:1"});
}

TEST(accelerator, dma_bufs_cover_whole_pages) {
  cuda_double gpus;
  accelerator& of = cuda_at(0);
  const buffer memory(10'000, memory_kind::cuda, 0);
  *gpus.host(memory.data() + 9'999) = std::byte{'!'};
  const accelerator::dma_buf made = of.export_dma_buf(memory.data() + 5'000, 5'000);
  EXPECT_EQ(made.offset_bytes, 5'000u % 4'096u);
  char found = 0;
  EXPECT_EQ(::pread(made.descriptor, &found, 1, static_cast<off_t>(made.offset_bytes) + 4'999), 1);
  EXPECT_EQ(found, '!');
  ::close(made.descriptor);
}

TEST(accelerator, flushes_only_where_required) {
  {
    const cuda_double gpus;
    cuda_at(0).flush_rdma();
    EXPECT_EQ(gpus.calls("cuFlushGPUDirectRDMAWrites"), 1u);
  }
  cuda_double::options as;
  as.writes_ordering = 100;
  const cuda_double gpus(as);
  EXPECT_FALSE(cuda_at(0).facts().needs_rdma_flush);
  cuda_at(0).flush_rdma();
  EXPECT_EQ(gpus.calls("cuFlushGPUDirectRDMAWrites"), 0u);
}

TEST(accelerator, kernels_are_launched) {
  cuda_double gpus;
  gpus.add_kernel("set", {sizeof(int*), sizeof(int)},
                  [](unsigned blocks, unsigned threads, void** arguments, cuda_double& at) {
                    int* const into = at.host(*static_cast<int**>(arguments[0]), blocks * threads);
                    for (unsigned i = 0; i < blocks * threads; ++i) {
                      into[i] = *static_cast<int*>(arguments[1]);
                    }
                  });
  accelerator& of = cuda_at(0);
  const buffer memory(64, memory_kind::cuda, 0);
  const device_stream on(of);
  const accelerator::module code = of.load("set");
  void* into = memory.data();
  int value = 7;
  void* arguments[] = {&into, &value};
  of.launch(of.find(code, "set"), 4, 4, 0, on.get(), arguments);
  of.finish(on.get());
  EXPECT_EQ(gpus.host(reinterpret_cast<int*>(memory.data()), 16)[15], 7);
  expect_error(failure_of_call([&] { of.find(code, "missing"); }), errc::device_failed,
               {"cuModuleGetFunction(missing)", "CUDA_ERROR_NOT_FOUND"});
  expect_error(failure_of_call([&] { of.load("missing"); }), errc::device_failed,
               {"cuModuleLoadData", "CUDA_ERROR_INVALID_IMAGE"});
  of.unload(code);
}

}  // namespace
}  // namespace tandem::test
