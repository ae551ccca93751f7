#include <fmt/format.h>

#include <atomic>
#include <cstring>

#include "accelerator/driver_calls.hpp"
#include "accelerator/hip_device.hpp"

namespace tandem::devices {

namespace amd = detail::amd;

bool hip_device::can_access_peer(int other_device) {
  if (other_device == device()) return true;
  int can = 0;
  require_success(driver_.can_access_peer(&can, device(), other_device), "hipDeviceCanAccessPeer");
  return can != 0;
}

void hip_device::enable_peer_access(int other_device) {
  if (other_device == device()) return;
  const scoped_device here(*this);
  const amd::result status = driver_.enable_peer_access(other_device, 0);
  if (status == amd::peer_access_already_enabled) {
    driver_.last_error();
  } else {
    require_success(status, "hipDeviceEnablePeerAccess");
  }
}

accelerator::handle hip_device::share(void* base) {
  const scoped_device here(*this);
  amd::ipc_handle made{};
  require_success(driver_.get_ipc_handle(&made, base), "hipIpcGetMemHandle");
  handle shared{};
  static_assert(sizeof(shared) == sizeof(made));
  std::memcpy(shared.data(), made.bytes.data(), shared.size());
  return shared;
}

void* hip_device::open(const handle& shared) {
  const scoped_device here(*this);
  amd::ipc_handle which{};
  std::memcpy(which.bytes.data(), shared.data(), shared.size());
  void* into = nullptr;
  require_success(driver_.open_ipc_handle(&into, which, amd::ipc_lazy_enable_peer_access(major_)),
                  "hipIpcOpenMemHandle");
  return into;
}

void hip_device::close(void* opened) noexcept {
  attempt_noexcept([&] { return driver_.close_ipc_handle(opened); });
}

accelerator::dma_buf hip_device::export_dma_buf(const void* address, std::size_t bytes) {
  if (!facts_.exports_dma_buf) {
    throw error(errc::unsupported_memory, fmt::format("{} cannot export a dma-buf", text_),
                "it needs ROCm 5.6 or newer, and a kernel with CONFIG_DMABUF_MOVE_NOTIFY and "
                "CONFIG_PCI_P2PDMA");
  }
  const scoped_device here(*this);
  dma_buf made;
  std::uint64_t offset_bytes = 0;
  const amd::result status =
      driver_.below.export_dma_buf(address, bytes, &made.descriptor, &offset_bytes);
  if (status != amd::success) {
    throw call_error({"hsa_amd_portable_export_dmabuf", fmt::format("HSA error {:#x}", status), "",
                      "the range must lie in one allocation of this device"},
                     text_);
  }
  made.offset_bytes = static_cast<std::size_t>(offset_bytes);
  return made;
}

void hip_device::flush_rdma() {
  if (!facts_.needs_rdma_flush) return;
  if (driver_.flush_rdma_writes != nullptr) {
    const scoped_device here(*this);
    const amd::result status =
        driver_.flush_rdma_writes(amd::flush_to_current_device, amd::flush_scope_owner);
    if (status != amd::not_supported) {
      require_success(status, "hipDeviceFlushGPUDirectRDMAWrites");
      return;
    }
    driver_.last_error();
  }
  if (flush_register_ == nullptr) {
    throw error(errc::unsupported_memory,
                fmt::format("HIP cannot flush the RDMA writes of NICs into {}", text_),
                "have the NIC read a word of it after the last write, or install a ROCm with "
                "hipDeviceFlushGPUDirectRDMAWrites");
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  *flush_register_ = 1;
}

}  // namespace tandem::devices
