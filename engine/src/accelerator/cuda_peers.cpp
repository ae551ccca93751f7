#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstring>

#include "accelerator/cuda_device.hpp"

namespace tandem::devices {

namespace cu = detail::cu;

namespace {

cuda_device& device_at(int index) {
  return static_cast<cuda_device&>(accelerator_at(memory_kind::cuda, index));
}

}  // namespace

bool cuda_device::can_access_peer(int other_device) {
  if (other_device == device()) return true;
  int can = 0;
  require_success(driver_.can_access_peer(&can, id_, device_at(other_device).id_),
                  "cuDeviceCanAccessPeer");
  return can != 0;
}

void cuda_device::enable_peer_access(int other_device) {
  if (other_device == device()) return;
  const cu::context peer_context = device_at(other_device).context();
  const scoped_device here(*this);
  const cu::result status = driver_.enable_peer_access(peer_context, 0);
  if (status != cu::peer_access_already_enabled) require_success(status, "cuCtxEnablePeerAccess");
}

accelerator::handle cuda_device::share(void* base) {
  const scoped_device here(*this);
  cu::ipc_handle made{};
  require_success(driver_.get_ipc_handle(&made, address_of(base)), "cuIpcGetMemHandle");
  handle shared{};
  static_assert(sizeof(shared) == sizeof(made));
  std::memcpy(shared.data(), made.bytes.data(), shared.size());
  return shared;
}

void* cuda_device::open(const handle& shared) {
  const scoped_device here(*this);
  cu::ipc_handle which{};
  std::memcpy(which.bytes.data(), shared.data(), shared.size());
  cu::address into = 0;
  require_success(driver_.open_ipc_handle(&into, which, cu::ipc_lazy_enable_peer_access),
                  "cuIpcOpenMemHandle");
  return pointer_to(into);
}

void cuda_device::close(void* opened) noexcept {
  attempt_noexcept([&] { driver_.close_ipc_handle(address_of(opened)); });
}

int cuda_device::export_pages(void* base) {
  if (driver_.retain_pages == nullptr || driver_.export_pages == nullptr) return -1;
  const scoped_device here(*this);
  cu::pages which = 0;
  if (driver_.retain_pages(&which, base) != cu::success) return -1;
  int made = -1;
  const cu::result status = driver_.export_pages(&made, which, cu::posix_descriptor, 0);
  driver_.release_pages(which);
  require_success(status, "cuMemExportToShareableHandle");
  ::fcntl(made, F_SETFD, FD_CLOEXEC);
  return made;
}

void* cuda_device::map_pages(std::span<const pages> all) {
  if (driver_.import_pages == nullptr || driver_.set_access == nullptr) {
    return accelerator::map_pages(all);
  }
  std::size_t bytes = 0;
  for (const pages& each : all) bytes += each.bytes;
  const scoped_device here(*this);
  cu::address base = 0;
  require_success(driver_.reserve_addresses(&base, bytes, 0, 0, 0), "cuMemAddressReserve");
  std::size_t mapped = 0;
  try {
    for (const pages& each : all) {
      cu::pages which = 0;
      auto* const descriptor = reinterpret_cast<void*>(  // NOLINT: the driver takes it like this
          static_cast<std::intptr_t>(each.descriptor));
      require_success(driver_.import_pages(&which, descriptor, cu::posix_descriptor),
                      "cuMemImportFromShareableHandle");
      const cu::result status = driver_.map_pages(base + mapped, each.bytes, 0, which, 0);
      driver_.release_pages(which);  // the mapping keeps them
      require_success(status, fmt::format("cuMemMap({} bytes)", each.bytes));
      mapped += each.bytes;
    }
    access_pages(pointer_to(base), bytes);
  } catch (const error&) {
    if (mapped > 0) driver_.unmap_pages(base, mapped);
    driver_.free_addresses(base, bytes);
    throw;
  }
  return pointer_to(base);
}

void cuda_device::access_pages(void* mapped, std::size_t bytes) {
  const scoped_device here(*this);
  const cu::page_access by{.device = id_};
  require_success(driver_.set_access(address_of(mapped), bytes, &by, 1), "cuMemSetAccess");
}

void cuda_device::unmap_pages(void* mapped, std::size_t bytes) noexcept {
  attempt_noexcept([&] {
    driver_.unmap_pages(address_of(mapped), bytes);
    driver_.free_addresses(address_of(mapped), bytes);
  });
}

/// The driver exports whole pages.
accelerator::dma_buf cuda_device::export_dma_buf(const void* address, std::size_t bytes) {
  if (!facts_.exports_dma_buf) {
    throw error(errc::unsupported_memory, fmt::format("{} cannot export a dma-buf", text_),
                "it needs NVIDIA's open kernel modules, driver 515 or newer, and Linux 5.12");
  }
  const auto page = static_cast<cu::address>(::sysconf(_SC_PAGESIZE));
  const cu::address first = address_of(address) / page * page;
  const cu::address last = (address_of(address) + bytes + page - 1) / page * page;
  const scoped_device here(*this);
  dma_buf made;
  made.offset_bytes = static_cast<std::size_t>(address_of(address) - first);
  require_success(
      driver_.export_range(&made.descriptor, first, static_cast<std::size_t>(last - first),
                           cu::dma_buf_descriptor, 0),
      "cuMemGetHandleForAddressRange");
  return made;
}

void cuda_device::flush_rdma() {
  if (!facts_.needs_rdma_flush || driver_.flush_rdma_writes == nullptr) return;
  const scoped_device here(*this);
  require_success(driver_.flush_rdma_writes(cu::flush_to_current_context, cu::flush_scope_owner),
                  "cuFlushGPUDirectRDMAWrites");
}

}  // namespace tandem::devices
