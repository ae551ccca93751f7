#pragma once

#include <cstdint>
#include <string>
#include <tandem/detail/cuda.hpp>

#include "doubles/hip/functions.hpp"

namespace tandem::test::translation {
namespace amd = detail::amd;
namespace cu = detail::cu;

/// How NVIDIA's devices are presented.
struct device_profile {
  int version = 60241134;  ///< HIP_VERSION
  std::string architecture = "gfx942";
  bool has_dma_buf = true;
  bool has_stream_memory_ops = true;
  bool has_unique_ids = true;
};
device_profile& profile() noexcept;

/// CUDA as `find_cuda` returns it now; null: none.
const detail::cuda* driver();

/// The register whose address HIP returns for flushing.
std::uint32_t& flush_register() noexcept;

/// The calling thread's device.
int& device() noexcept;

/// Translates a result to HIP's numbers, most of which are CUDA's, and sets the thread's last error
/// if it is an error.
amd::result keep(cu::result result) noexcept;
amd::result keep_own(amd::result result) noexcept;

/// CUDA's result of `what(cuda)` while the primary context of the thread's device is current.
template <class Function>
amd::result on_device(Function what);
/// The same as a pair of calls. Null: no CUDA, or no such device.
const detail::cuda* enter() noexcept;
void leave(const detail::cuda& in) noexcept;

template <class Function>
amd::result on_device(Function what) {
  const detail::cuda* const in = enter();
  if (in == nullptr) return keep_own(amd::not_initialized);
  const cu::result result = what(*in);
  leave(*in);
  return keep(result);
}

inline cu::address address_of(const void* pointer) noexcept {
  return reinterpret_cast<cu::address>(pointer);
}
inline void* pointer_to(cu::address address) noexcept {
  return reinterpret_cast<void*>(address);
}
inline cu::stream as(amd::stream handle) noexcept {
  return reinterpret_cast<cu::stream>(handle);
}
inline cu::event as(amd::event handle) noexcept {
  return reinterpret_cast<cu::event>(handle);
}

}  // namespace tandem::test::translation
