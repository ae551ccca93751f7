// The properties of a CUDA device, and errors of CUDA calls with advice.
#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "accelerator/cuda_device.hpp"

namespace tandem::devices {
namespace {

namespace cu = detail::cu;

/// Whether the driver has fewer hardware queues than its usual 8 (CUDA's programming guide), as the
/// user sets it or as a client of MPS, whose clients share one pool of queues (MPS' guide): a
/// stream that waits for a word holds up those behind it in its queue, also the one whose work the
/// peer needs before it writes that word. With 1, messages both ways stood still on an H200, as did
/// those of two streams of two ranks in one client of MPS.
bool streams_share_queues(bool is_client_of_mps) {
  constexpr int usual_queues = 8;
  const char* const given = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const int requested = given == nullptr ? 0 : std::atoi(given);
  return requested > 0 ? requested < usual_queues : is_client_of_mps;
}

std::string_view cuda_advice_for(cu::result code) noexcept {
  switch (code) {
    case cu::out_of_memory:
      return "free memory of the device, or use smaller buffers; nvidia-smi shows who holds it";
    case cu::not_permitted:
    case cu::not_supported:
      return "this device, driver or container does not support it; `tandem devices` lists what "
             "each device supports";
    case cu::invalid_value:
      return "an address, handle or size is wrong: freed memory, or memory of another device";
    case 700:  // illegal address
    case 719:  // launch failed
      return "an earlier kernel failed, possibly one of the application: run it under "
             "compute-sanitizer";
    case 46:  // devices unavailable
      return "another process holds the device exclusively (nvidia-smi: compute mode)";
    default:
      return "see the driver's log (dmesg: NVRM, Xid)";
  }
}

}  // namespace

void check(const detail::cuda& driver, cu::result status, std::string_view call,
           std::string_view on) {
  if (status == cu::success) return;
  const char* name = nullptr;
  const char* text = nullptr;
  driver.error_name(status, &name);
  driver.error_string(status, &text);
  throw call_error({call, name != nullptr ? name : fmt::format("CUDA error {}", status),
                    text != nullptr ? text : "", cuda_advice_for(status)},
                   on);
}

cuda_device::cuda_device(const detail::cuda& driver, int ordinal) : driver_(driver) {
  facts_.kind = memory_kind::cuda;
  facts_.device = ordinal;
  text_ = text();
  require_success(driver_.device_get(&id_, ordinal), "cuDeviceGet");
  std::array<char, 256> name{};
  require_success(driver_.device_name(name.data(), static_cast<int>(name.size()), id_),
                  "cuDeviceGetName");
  facts_.name = name.data();
  text_ = text();
  require_success(driver_.device_pci(name.data(), static_cast<int>(name.size()), id_),
                  "cuDeviceGetPCIBusId");
  facts_.pci = lower_case(name.data());
  cu::uuid uuid{};
  require_success(driver_.device_uuid(&uuid, id_), "cuDeviceGetUuid");
  facts_.uuid = hexadecimal(uuid.bytes.data());
  int version = 0;
  require_success(driver_.driver_version(&version), "cuDriverGetVersion");
  facts_.driver = fmt::format("{}.{}", version / 1000, version % 1000 / 10);
  facts_.architecture = fmt::format("sm_{}{}", attribute(cu::compute_capability_major),
                                    attribute(cu::compute_capability_minor));
  require_success(driver_.device_memory(&facts_.memory_bytes, id_), "cuDeviceTotalMem");
  facts_.multiprocessors = attribute(cu::multiprocessor_count);
  facts_.copy_engines = attribute(cu::async_engine_count);
  facts_.numa_node = numa_node_of(facts_.pci);
  facts_.runs_processes_at_once = attribute(cu::mps_enabled) != 0;
  facts_.has_stream_memory_ops = attribute(cu::can_use_64_bit_stream_mem_ops) != 0 &&
                                 !streams_share_queues(facts_.runs_processes_at_once);
  facts_.exports_dma_buf = driver_.export_range != nullptr && attribute(cu::dma_buf_supported) != 0;
  facts_.supports_rdma = attribute(cu::gpu_direct_rdma_supported) != 0;
  constexpr int ordered_for_owner = 100;  // CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER
  facts_.needs_rdma_flush =
      facts_.supports_rdma && attribute(cu::gpu_direct_rdma_writes_ordering) < ordered_for_owner;
}

/// 0 for an attribute that this driver does not know yet.
int cuda_device::attribute(int which) {
  int value = 0;
  const cu::result status = driver_.device_attribute(&value, which, id_);
  if (status == cu::invalid_value) return 0;
  require_success(status, "cuDeviceGetAttribute");
  return value;
}

std::vector<std::unique_ptr<accelerator>> cuda_devices(const detail::cuda& driver) {
  int count = 0;
  check(driver, driver.device_count(&count), "cuDeviceGetCount", "this machine");
  std::vector<std::unique_ptr<accelerator>> all;
  for (int i = 0; i < count; ++i) all.push_back(std::make_unique<cuda_device>(driver, i));
  return all;
}

}  // namespace tandem::devices
