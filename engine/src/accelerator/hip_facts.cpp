#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "accelerator/driver_calls.hpp"
#include "accelerator/hip_device.hpp"

namespace tandem::devices {
namespace {

namespace amd = detail::amd;
using detail::hip;

std::string_view hip_advice_for(amd::result code) noexcept {
  switch (code) {
    case amd::out_of_memory:
      return "free memory of the device, or use smaller buffers; rocm-smi --showpids shows who "
             "holds it";
    case amd::not_supported:
      return "this device, ROCm or container does not support it; `tandem devices` lists what "
             "each device supports";
    case amd::invalid_value:
    case amd::not_found:
      return "an address, handle or size is wrong: freed memory, or memory of another device";
    case amd::invalid_context:
      return "this process exported the handle itself: use the memory directly";
    case amd::no_binary_for_gpu:
      return "the kernel was compiled for another architecture than this device's";
    case amd::illegal_address:
    case amd::launch_failure:
      return "an earlier kernel failed, possibly one of the application: run it with "
             "AMD_SERIALIZE_KERNEL=3";
    default:
      return "see the kernel's log (dmesg: amdgpu), or run with AMD_LOG_LEVEL=3";
  }
}

/// From MI200 on, writes of NICs bypass the HDP cache, so RCCL does not flush it there.
bool needs_hdp_flush(std::string_view architecture) noexcept {
  return architecture != "gfx90a" && !architecture.starts_with("gfx94") &&
         !architecture.starts_with("gfx95");
}

/// Without dma-buf, NICs can register device memory if its driver has registered with the peer
/// memory interface of the kernel's RDMA stack.
bool has_peer_memory_module() {
  std::error_code ignored;
  return std::filesystem::exists("/sys/kernel/mm/memory_peers/amdkfd/version", ignored);
}

bool is_all_zero(const amd::uuid& id) noexcept {
  return std::ranges::all_of(id.bytes, [](char c) { return c == 0; });
}

}  // namespace

void check(const hip& driver, amd::result status, std::string_view call, std::string_view on) {
  if (status == amd::success) return;
  driver.last_error();
  const char* const name = driver.error_name(status);
  const char* const text = driver.error_string(status);
  throw call_error({call, name != nullptr ? name : fmt::format("HIP error {}", status),
                    text != nullptr ? text : "", hip_advice_for(status)},
                   on);
}

hip_device::hip_device(const hip& driver, int ordinal) : driver_(driver) {
  facts_.kind = memory_kind::hip;
  facts_.device = ordinal;
  text_ = text();
  std::array<char, 256> name{};
  require_success(driver_.device_name(name.data(), static_cast<int>(name.size()), ordinal),
                  "hipDeviceGetName");
  facts_.name = name.data();
  text_ = text();
  require_success(driver_.device_pci(name.data(), static_cast<int>(name.size()), ordinal),
                  "hipDeviceGetPCIBusId");
  facts_.pci = lower_case(name.data());
  read_facts();
}

void hip_device::read_facts() {
  amd::uuid uuid{};
  require_success(driver_.device_uuid(&uuid, device()), "hipDeviceGetUuid");
  if (is_all_zero(uuid)) {  // a card without one: on one host the PCI address is unique
    std::memcpy(uuid.bytes.data(), facts_.pci.data(),
                std::min(facts_.pci.size(), uuid.bytes.size()));
  }
  facts_.uuid = hexadecimal(uuid.bytes.data());
  int version = 0;
  require_success(driver_.runtime_version(&version), "hipRuntimeGetVersion");
  major_ = amd::major_of(version);
  facts_.driver = fmt::format("{}.{}", major_, amd::minor_of(version));
  facts_.architecture = architecture_at(driver_.below, facts_.pci);
  require_success(driver_.device_memory(&facts_.memory_bytes, device()), "hipDeviceTotalMem");
  facts_.multiprocessors = attribute(amd::multiprocessor_count);
  facts_.copy_engines = attribute(amd::async_engine_count);
  facts_.numa_node = numa_node_of(facts_.pci);
  facts_.has_stream_memory_ops = attribute(amd::can_use_stream_wait_value) != 0;
  facts_.exports_dma_buf = devices::exports_dma_buf(driver_.below);
  facts_.supports_rdma = facts_.exports_dma_buf || has_peer_memory_module();
  // RCCL flushes after every write of a NIC, on every GPU.
  facts_.needs_rdma_flush = facts_.supports_rdma;
  if (!needs_hdp_flush(facts_.architecture)) return;
  alignas(std::uint64_t) int at[2] = {};
  if (driver_.device_attribute(at, amd::hdp_memory_flush_register, device()) == amd::success) {
    std::memcpy(&flush_register_, at, sizeof(flush_register_));
  } else {
    driver_.last_error();
  }
}

/// 0 for an attribute that this version of HIP does not know.
int hip_device::attribute(int which) {
  int value = 0;
  const amd::result status = driver_.device_attribute(&value, which, device());
  if (status == amd::invalid_value) {
    driver_.last_error();
    return 0;
  }
  require_success(status, "hipDeviceGetAttribute");
  return value;
}

std::vector<std::unique_ptr<accelerator>> hip_devices(const hip& driver) {
  int count = 0;
  check(driver, driver.device_count(&count), "hipGetDeviceCount", "this machine");
  std::vector<std::unique_ptr<accelerator>> all;
  for (int i = 0; i < count; ++i) all.push_back(std::make_unique<hip_device>(driver, i));
  return all;
}

}  // namespace tandem::devices
