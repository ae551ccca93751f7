#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "doubles/cuda/rig.hpp"

namespace tandem::test {
namespace {

TEST(CudaDoubleMemory, HostCannotAccessDeviceMemory) {
  cuda_rig rig;
  const cu::address at = rig.allocate(4096);
  // A system call accesses the address: it returns EFAULT instead of crashing this process.
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  EXPECT_EQ(::write(ends[1], reinterpret_cast<const void*>(at), 1), -1);
  EXPECT_EQ(errno, EFAULT);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(CudaDoubleMemory, CopiesBetweenHostAndDevice) {
  cuda_rig rig;
  const cu::stream on = rig.stream();
  char* const from = rig.pin("hello");
  char* const back = rig.pin(".....");
  const cu::address there = rig.allocate(5), next = rig.allocate(5);
  EXPECT_EQ(driver().copy(there, address_of(from), 5, on), cu::success);
  EXPECT_EQ(driver().copy(next, there, 5, on), cu::success);
  EXPECT_EQ(driver().fill(next + 1, 'u', 1, on), cu::success);
  EXPECT_EQ(driver().copy(address_of(back), next, 5, on), cu::success);
  EXPECT_EQ(driver().synchronize_stream(on), cu::success);
  EXPECT_EQ(std::string(back, 5), "hullo");
  EXPECT_EQ(rig.gpus.seen().copies, 3u);
  EXPECT_EQ(rig.gpus.seen().copied_bytes, 15u);
  EXPECT_EQ(rig.gpus.seen().fills, 1u);
  EXPECT_EQ(rig.gpus.seen().pageable_copies, 0u);
}

TEST(CudaDoubleMemory, PageableCopiesAreSynchronous) {
  cuda_rig rig(by_hand());
  const cu::stream on = rig.stream();
  std::string here = "pageable";
  const cu::address there = rig.allocate(8);
  EXPECT_EQ(driver().copy(there, address_of(here.data()), 8, on), cu::success);
  EXPECT_EQ(rig.text(there, 8), "pageable");
  EXPECT_EQ(rig.gpus.seen().pageable_copies, 1u);
  // Pinned memory is copied when the stream executes the copy.
  EXPECT_EQ(driver().register_host(here.data(), 8, cu::host_portable), cu::success);
  here = "a change";
  EXPECT_EQ(driver().copy(there, address_of(here.data()), 8, on), cu::success);
  EXPECT_EQ(rig.text(there, 8), "pageable");
  EXPECT_EQ(rig.gpus.run_all(), 1u);
  EXPECT_EQ(rig.text(there, 8), "a change");
  EXPECT_EQ(driver().unregister_host(here.data()), cu::success);
}

TEST(CudaDoubleMemory, NewMemoryIsUninitialized) {
  cuda_rig rig;
  EXPECT_NE(rig.text(rig.allocate(4), 4), std::string(4, '\0'));
}

TEST(CudaDoubleMemory, ReportsInvalidCopies) {
  cuda_rig rig;
  const cu::address eight = rig.allocate(8), gone = rig.allocate(8);
  char* const here = rig.pin("12345678");
  rig.free(gone);
  const auto refuses = [&](const char* words, cu::address to, cu::address from, std::size_t bytes) {
    rig.gpus.expect_violation(words);
    EXPECT_EQ(driver().copy(to, from, bytes, nullptr), cu::invalid_value);
    EXPECT_NE(rig.gpus.violations().back().find(words), std::string::npos)
        << rig.gpus.violations().back();
  };
  refuses("0 bytes into an allocation of 8 bytes, which ends before", eight, address_of(here), 9);
  refuses("4 bytes into an allocation of 8 bytes, which", address_of(here), eight + 4, 5);
  refuses("is freed, or closed", gone, address_of(here), 8);
  refuses("is no address of an allocation", eight + 8, address_of(here), 8);
  refuses("pinned memory of 8 bytes, which ends before", eight, address_of(here + 1), 8);
  refuses("is pageable", eight, 0, 8);
  EXPECT_EQ(rig.gpus.seen().copies, 0u);
}

TEST(CudaDoubleMemory, DetectsUseAfterFreeAtExecution) {
  cuda_rig rig(by_hand());
  const cu::address from = rig.allocate(8), to = rig.allocate(8);
  EXPECT_EQ(driver().copy(to, from, 8, nullptr), cu::success);
  rig.free(from);
  EXPECT_EQ(rig.gpus.violations(), std::vector<std::string>{});
  rig.gpus.expect_violation("is freed, or closed");
  EXPECT_EQ(rig.gpus.run_all(), 1u);
  EXPECT_EQ(rig.gpus.violations().size(), 1u);

  std::string here = "12345678";
  EXPECT_EQ(driver().register_host(here.data(), 8, 0), cu::success);
  EXPECT_EQ(driver().copy(to, address_of(here.data()), 8, nullptr), cu::success);
  EXPECT_EQ(driver().unregister_host(here.data()), cu::success);
  rig.gpus.expect_violation("no longer pinned");
  EXPECT_EQ(rig.gpus.run_all(), 1u);
}

TEST(CudaDoubleMemory, PeerAccessMustBeEnabled) {
  cuda_double::options as;
  as.devices = 3;
  as.peers = {{{0, 1}}};
  cuda_rig rig(as);
  int can = -1;
  EXPECT_EQ(driver().can_access_peer(&can, 1, 0), cu::success);
  EXPECT_EQ(can, 1);
  EXPECT_EQ(driver().can_access_peer(&can, 0, 2), cu::success);
  EXPECT_EQ(can, 0);
  const cu::address mine = rig.filled("mine");
  rig.use(1);
  const cu::address theirs = rig.filled("them");
  rig.gpus.expect_violation("on device 0, which device 1 does not reach");
  EXPECT_EQ(driver().copy(theirs, mine, 4, nullptr), cu::invalid_value);
  EXPECT_EQ(driver().enable_peer_access(rig.contexts[0], 0), cu::success);
  EXPECT_EQ(driver().enable_peer_access(rig.contexts[0], 0), cu::peer_access_already_enabled);
  EXPECT_EQ(driver().enable_peer_access(rig.contexts[1], 0), 101);
  EXPECT_EQ(driver().enable_peer_access(rig.contexts[2], 0), 217);
  EXPECT_EQ(driver().copy(theirs, mine, 4, nullptr), cu::success);
  EXPECT_EQ(driver().synchronize_stream(nullptr), cu::success);
  EXPECT_EQ(rig.text(theirs, 4), "mine");
  rig.use(0);
  rig.gpus.expect_violation("on device 1, which device 0 does not reach");
  EXPECT_EQ(driver().copy(theirs, mine, 4, nullptr), cu::invalid_value) << "one way only";
}

TEST(CudaDoubleMemory, ReportsPointerAttributes) {
  cuda_rig rig;
  rig.use(1);
  const cu::address at = rig.allocate(100);
  char* const here = rig.pin("x");
  unsigned type = 0;
  int ordinal = -1;
  bool can_be_shared = false;
  cu::address base = 0;
  std::size_t bytes = 0;
  EXPECT_EQ(driver().pointer_attribute(&type, cu::pointer_memory_type, at + 99), cu::success);
  EXPECT_EQ(type, cu::memory_type_device);
  EXPECT_EQ(driver().pointer_attribute(&ordinal, cu::pointer_device_ordinal, at), cu::success);
  EXPECT_EQ(ordinal, 1);
  EXPECT_EQ(driver().pointer_attribute(&can_be_shared, cu::pointer_is_ipc_capable, at),
            cu::success);
  EXPECT_TRUE(can_be_shared);
  EXPECT_EQ(driver().address_range(&base, &bytes, at + 50), cu::success);
  EXPECT_EQ(base, at);
  EXPECT_EQ(bytes, 100u);
  EXPECT_EQ(driver().pointer_attribute(&type, cu::pointer_memory_type, address_of(here)),
            cu::success);
  EXPECT_EQ(type, cu::memory_type_host);
  EXPECT_EQ(driver().host_address(&base, here, 0), cu::success);
  EXPECT_EQ(driver().pointer_attribute(&type, cu::pointer_memory_type, address_of(&rig)),
            cu::invalid_value);
  EXPECT_EQ(driver().host_address(&base, &rig, 0), cu::invalid_value);
  EXPECT_EQ(driver().address_range(&base, &bytes, at + 100), cu::invalid_value);
}

TEST(CudaDoubleMemory, ReportsOutOfMemory) {
  cuda_double::options as;
  as.memory_bytes = 1000;
  cuda_rig rig(as);
  const cu::address first = rig.allocate(600);
  cu::address into = 0;
  EXPECT_EQ(driver().allocate(&into, 500), cu::out_of_memory);
  EXPECT_EQ(driver().allocate(&into, 0), cu::invalid_value);
  rig.free(first);
  rig.allocate(1000);
}

TEST(CudaDoubleMemory, RefusesDoublePinning) {
  cuda_rig rig;
  std::array<char, 100> here{};
  EXPECT_EQ(driver().register_host(here.data() + 50, 50, 0), cu::success);
  EXPECT_EQ(driver().register_host(here.data(), 51, 0), cu::host_memory_already_registered);
  EXPECT_EQ(driver().register_host(here.data(), 50, 0), cu::success);
  EXPECT_EQ(driver().unregister_host(here.data()), cu::success);
  EXPECT_EQ(driver().unregister_host(here.data() + 50), cu::success);
  rig.gpus.expect_violation("cuMemHostUnregister: ");
  EXPECT_EQ(driver().unregister_host(here.data()), 713);
}

TEST(CudaDoubleMemory, ContextsArePerThread) {
  cuda_rig rig;
  cu::address into = 0;
  std::thread([&] {
    EXPECT_EQ(driver().allocate(&into, 1), cu::invalid_context);
    EXPECT_EQ(driver().pop_context(nullptr), cu::invalid_context);
    EXPECT_EQ(driver().push_context(rig.contexts[1]), cu::success);
    EXPECT_EQ(driver().push_context(rig.contexts[0]), cu::success);
    cu::context was = nullptr;
    EXPECT_EQ(driver().pop_context(&was), cu::success);
    EXPECT_EQ(was, rig.contexts[0]);
    rig.allocate(1);
    EXPECT_EQ(driver().pop_context(&was), cu::success);
    EXPECT_EQ(was, rig.contexts[1]);
  }).join();
  int ordinal = -1;
  EXPECT_EQ(driver().pointer_attribute(&ordinal, cu::pointer_device_ordinal, rig.memory[0]),
            cu::success);
  EXPECT_EQ(ordinal, 1);
  EXPECT_EQ(driver().release_primary(1), cu::success);
  rig.gpus.expect_violation("cuCtxPushCurrent");
  EXPECT_EQ(driver().push_context(rig.contexts[1]), cu::invalid_context);
}

TEST(CudaDoubleMemory, SharesMemoryBetweenProcesses) {
  cuda_rig rig;
  const cu::address at = rig.filled("shared");
  cu::ipc_handle handle{};
  EXPECT_EQ(driver().get_ipc_handle(&handle, at), cu::success);
  rig.use(1);
  cu::address opened = 0, again = 0;
  EXPECT_EQ(driver().open_ipc_handle(&opened, handle, 1), cu::success);
  EXPECT_NE(opened, at);
  EXPECT_EQ(driver().open_ipc_handle(&again, handle, 1), 208);
  EXPECT_EQ(rig.gpus.open().openings, 1u);
  char* const here = rig.pin("......");
  EXPECT_EQ(driver().copy(address_of(here), opened, 6, nullptr), cu::success);
  EXPECT_EQ(driver().fill(opened + 1, 'S', 1, nullptr), cu::success);
  EXPECT_EQ(driver().synchronize_stream(nullptr), cu::success);
  EXPECT_EQ(std::string(here, 6), "shared");
  EXPECT_EQ(rig.text(at, 6), "sSared");

  rig.use(0);
  rig.free(at);
  rig.use(1);
  rig.gpus.expect_violation("what an IPC handle opened, of 6 bytes; it is freed");
  EXPECT_EQ(driver().copy(address_of(here), opened, 6, nullptr), cu::invalid_value);
  rig.gpus.expect_violation("cuMemFree: ");
  EXPECT_EQ(driver().free(opened), cu::invalid_value);
  EXPECT_EQ(driver().close_ipc_handle(opened), cu::success);
  EXPECT_EQ(driver().open_ipc_handle(&opened, handle, 1), 205) << "freed";
  handle.bytes[0] = '?';
  EXPECT_EQ(driver().open_ipc_handle(&opened, handle, 1), cu::invalid_value);
}

/// Bytes at an offset of the memory behind a descriptor.
std::string behind(int descriptor, std::size_t offset, std::size_t bytes) {
  std::string text(bytes, '?');
  EXPECT_EQ(::pread(descriptor, text.data(), bytes, static_cast<off_t>(offset)),
            static_cast<ssize_t>(bytes));
  return text;
}

TEST(CudaDoubleMemory, ExportsDmaBufs) {
  cuda_rig rig;
  const cu::address at = rig.allocate(8192 + 5);
  const auto exported = [&](std::size_t offset, std::size_t bytes) {
    int into = -1;
    EXPECT_EQ(driver().export_range(&into, at + offset, bytes, cu::dma_buf_descriptor, 0),
              cu::success);
    return into;
  };
  EXPECT_EQ(driver().fill(at + 4096, 'a', 4096, nullptr), cu::success);
  EXPECT_EQ(driver().synchronize_stream(nullptr), cu::success);
  const int all = exported(0, 4096), second = exported(4096, 8192), again = exported(4096, 4096);
  EXPECT_EQ(behind(second, 0, 3), "aaa");
  EXPECT_EQ(driver().fill(at + 100, 'b', 1, nullptr), cu::success);
  EXPECT_EQ(driver().fill(at + 4096, 'c', 1, nullptr), cu::success);
  EXPECT_EQ(driver().synchronize_stream(nullptr), cu::success);
  EXPECT_EQ(behind(all, 100, 1), "b");
  EXPECT_EQ(behind(second, 0, 2), "ca");
  EXPECT_EQ(::pwrite(again, "xyz", 3, 1), 3);
  EXPECT_EQ(rig.text(at + 4096, 4), "cxyz");
  for (const int each : {all, second, again}) ::close(each);

  int into = -1;
  rig.gpus.expect_violation("not a part of both");
  EXPECT_EQ(driver().export_range(&into, at, 12288, 1, 0), cu::not_supported);
  rig.gpus.expect_violation("cuMemGetHandleForAddressRange: ");
  EXPECT_EQ(driver().export_range(&into, at + 1, 4096, 1, 0), cu::invalid_value);
  EXPECT_EQ(driver().export_range(&into, at, 16384, 1, 0), cu::invalid_value);
}

}  // namespace
}  // namespace tandem::test
