#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "doubles/hip/translation.hpp"

// HSA, below HIP: agents are the CPU (0) and the devices (from 1 on).

using namespace tandem::test::translation;
using tandem::detail::cuda;

namespace {

constexpr amd::result refused = 0x1001;  // HSA_STATUS_ERROR_INVALID_ARGUMENT

}  // namespace

amd::result hsa_system_get_info(int which, void* into) {
  if (which != amd::system_dma_buf_supported) return refused;
  int supported = 0;
  const cuda* const in = driver();
  if (in != nullptr && in->export_range != nullptr && profile().has_dma_buf) {
    in->device_attribute(&supported, cu::dma_buf_supported, 0);
  }
  *static_cast<bool*>(into) = supported != 0;
  return amd::success;
}

amd::result hsa_iterate_agents(amd::result (*each)(amd::agent which, void* with), void* with) {
  int count = 0;
  hipGetDeviceCount(&count);
  for (int i = 0; i <= count; ++i) {
    const amd::result result = each({static_cast<std::uint64_t>(i)}, with);
    if (result != amd::success) return result;
  }
  return amd::success;
}

amd::result hsa_agent_get_info(amd::agent of, int which, void* into) {
  const bool is_processor = of.handle == 0;
  if (which == amd::agent_device) {
    const std::uint32_t kind = is_processor ? 0 : amd::device_gpu;
    std::memcpy(into, &kind, sizeof(kind));
    return amd::success;
  }
  if (is_processor) return refused;
  if (which == amd::agent_name) {
    std::snprintf(static_cast<char*>(into), 64, "%s", profile().architecture.c_str());
    return amd::success;
  }
  char place[32] = {};
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  if (hipDeviceGetPCIBusId(place, sizeof(place), static_cast<int>(of.handle) - 1) != amd::success ||
      std::sscanf(place, "%x:%x:%x", &domain, &bus, &slot) != 3) {
    return refused;
  }
  const std::uint32_t value = which == amd::agent_domain ? domain : bus << 8 | slot << 3;
  std::memcpy(into, &value, sizeof(value));
  return which == amd::agent_domain || which == amd::agent_place ? amd::success : refused;
}

/// CUDA exports whole pages; HSA accepts any range and returns the offset.
amd::result hsa_amd_portable_export_dmabuf(const void* from, std::size_t bytes, int* into,
                                           std::uint64_t* offset_bytes) {
  const cuda* const in = enter();
  if (in == nullptr) return refused;
  const auto page = static_cast<cu::address>(::sysconf(_SC_PAGESIZE));
  const cu::address first = address_of(from) / page * page;
  const cu::address last = (address_of(from) + bytes + page - 1) / page * page;
  *offset_bytes = address_of(from) - first;
  const cu::result result = in->export_range(into, first, static_cast<std::size_t>(last - first),
                                             cu::dma_buf_descriptor, 0);
  leave(*in);
  return result == cu::success ? amd::success : refused;
}
