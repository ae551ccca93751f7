#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <tandem/accelerator.hpp>
#include <tandem/detail/cuda.hpp>
#include <utility>
#include <vector>

namespace tandem::test {

/// Memory of a real GPU whose pages are made apart from their addresses, as PyTorch's expandable
/// segments and ncclMemAlloc do. Lives until the process ends.
class page_memory {
 public:
  page_memory(accelerator& of, const std::vector<std::size_t>& parts) : kind_(of.kind()) {
    std::string why;
    driver_ = detail::find_cuda(why);
    void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    create_ =
        library == nullptr ? nullptr : reinterpret_cast<create>(::dlsym(library, "cuMemCreate"));
    if (driver_ == nullptr || create_ == nullptr || driver_->map_pages == nullptr) {
      throw std::runtime_error("the driver makes no pages");
    }
    device_ = of.device();
    for (const std::size_t each : parts) bytes_ += each;
    of.enter();
    require(driver_->reserve_addresses(&base_, bytes_, 0, 0, 0), "cuMemAddressReserve");
    std::size_t offset = 0;
    for (const std::size_t each : parts) offset = map(offset, each);
    const detail::cu::page_access by{.device = device_};
    require(driver_->set_access(base_, bytes_, &by, 1), "cuMemSetAccess");
    of.leave();
  }

  mutable_view view(std::size_t offset, std::size_t bytes) const {
    return {reinterpret_cast<void*>(base_ + offset), bytes, kind_, device_};
  }
  std::size_t bytes() const noexcept { return bytes_; }

  /// Puts new pages where others are.
  void replace(accelerator& of, std::size_t offset, std::size_t bytes) {
    of.enter();
    require(driver_->unmap_pages(base_ + offset, bytes), "cuMemUnmap");
    map(offset, bytes);
    const detail::cu::page_access by{.device = device_};
    require(driver_->set_access(base_ + offset, bytes, &by, 1), "cuMemSetAccess");
    of.leave();
  }

 private:
  /// CUmemAllocationProp: pinned memory of a device, with a POSIX descriptor.
  struct properties {
    int type = 1, handle_types = 1, location_type = 1, device = 0;
    void* of_windows = nullptr;
    std::uint64_t flags = 0;
  };
  using create = int (*)(detail::cu::pages* into, std::size_t bytes, const properties* how,
                         unsigned long long flags);

  static void require(int status, const char* call) {
    if (status != 0) throw std::runtime_error(std::string(call) + ": " + std::to_string(status));
  }
  std::size_t map(std::size_t offset, std::size_t bytes) {
    detail::cu::pages made = 0;
    const properties how{.device = device_};
    require(create_(&made, bytes, &how, 0), "cuMemCreate");
    require(driver_->map_pages(base_ + offset, bytes, 0, made, 0), "cuMemMap");
    require(driver_->release_pages(made), "cuMemRelease");
    return offset + bytes;
  }

  const memory_kind kind_;
  const detail::cuda* driver_ = nullptr;
  create create_ = nullptr;
  int device_ = 0;
  std::size_t bytes_ = 0;
  detail::cu::address base_ = 0;
};

}  // namespace tandem::test
