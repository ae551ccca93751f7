#include <array>
#include <cstdio>

#include "accelerator/hip_device.hpp"

namespace tandem::devices {
namespace {

namespace amd = detail::amd;
using detail::hsa;

struct search {
  const hsa& in;
  unsigned domain = 0;
  unsigned bus_and_device = 0;
  std::string found;
};

template <class Value>
bool query(const hsa& in, amd::agent of, int which, Value& into) {
  return in.agent_info(of, which, &into) == amd::success;
}

amd::result match_agent(amd::agent which, void* with) {
  search& target = *static_cast<search*>(with);
  std::uint32_t device = 0;
  std::uint32_t bdf_id = 0;
  std::uint32_t domain = 0;
  if (!query(target.in, which, amd::agent_device, device) || device != amd::device_gpu ||
      !query(target.in, which, amd::agent_place, bdf_id) ||
      !query(target.in, which, amd::agent_domain, domain)) {
    return amd::success;
  }
  if (domain != target.domain || bdf_id >> 3 != target.bus_and_device) return amd::success;
  std::array<char, 65> name{};  // 64 characters at most (HSA specification)
  if (query(target.in, which, amd::agent_name, name)) target.found = name.data();
  return amd::success;
}

}  // namespace

std::string architecture_at(const hsa& from, std::string_view pci) {
  unsigned bus = 0;
  unsigned device = 0;
  search target{from, 0, 0, {}};
  if (from.iterate_agents == nullptr || from.agent_info == nullptr ||
      std::sscanf(std::string(pci).c_str(), "%x:%x:%x", &target.domain, &bus, &device) != 3) {
    return {};
  }
  target.bus_and_device = bus << 5 | device;
  from.iterate_agents(match_agent, &target);
  return target.found;
}

bool exports_dma_buf(const hsa& from) {
  bool supported = false;
  return from.export_dma_buf != nullptr && from.system_info != nullptr &&
         from.system_info(amd::system_dma_buf_supported, &supported) == amd::success && supported;
}

}  // namespace tandem::devices
