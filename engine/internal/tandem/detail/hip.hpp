#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::detail {

/// Types and constants of hip_runtime_api.h and hsa.h for the used part: most builds have neither
/// header. Only what kept its layout and number from HIP 5.2 to HIP 7 is used: functions with plain
/// arguments, and attributes that were never renumbered. The property structures and
/// hipPointerAttribute_t changed with HIP 6, so they are not used.
namespace amd {
using result = int;  ///< 0: success
using stream = struct hip_stream_of*;
using event = struct hip_event_of*;
using module = struct hip_module_of*;
using function = struct hip_function_of*;
struct uuid {
  std::array<char, 16> bytes;
};
struct ipc_handle {
  std::array<char, 64> bytes;
};
using host_function = void (*)(void* with);

inline constexpr result success = 0, invalid_value = 1, out_of_memory = 2, not_initialized = 3,
                        no_device = 100, invalid_device = 101, invalid_context = 201,
                        no_binary_for_gpu = 209, not_found = 500, not_ready = 600,
                        illegal_address = 700, peer_access_already_enabled = 704,
                        host_memory_already_registered = 712, launch_failure = 719,
                        not_supported = 801;

// hipDeviceAttribute_t
inline constexpr int async_engine_count = 2, multiprocessor_count = 63,
                     hdp_memory_flush_register = 10005, can_use_stream_wait_value = 10013;
// hipPointer_attribute
inline constexpr int pointer_memory_type = 2, pointer_buffer_id = 7, pointer_device_ordinal = 9;
// Two values that HIP 6 changed.
/// hipMemoryTypeDevice.
constexpr int memory_type_device(int hip_major) noexcept {
  return hip_major < 6 ? 1 : 2;
}
/// hipIpcMemLazyEnablePeerAccess, which is required to open a handle.
constexpr unsigned ipc_lazy_enable_peer_access(int hip_major) noexcept {
  return hip_major < 6 ? 0 : 1;
}

inline constexpr unsigned host_portable = 1, host_mapped = 2;  // of hipHostMalloc and -Register
inline constexpr unsigned host_coherent = 0x40000000;          // of hipHostMalloc
inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_disable_timing = 2, event_release_to_system = 0x80000000;
/// As CUDA's.
enum class capture_mode : int { global = 0, thread_local_only = 1, relaxed = 2 };
inline constexpr unsigned wait_value_geq = 0;
inline constexpr int copy_any = 4;  // hipMemcpyDefault
inline constexpr int flush_to_current_device = 0, flush_scope_owner = 100;
/// hipRuntimeGetVersion returns HIP_VERSION: 60241133 is HIP 6.2.
constexpr int major_of(int version) noexcept {
  return version / 10000000;
}
constexpr int minor_of(int version) noexcept {
  return version / 100000 % 100;
}

struct agent {
  std::uint64_t handle;
};
inline constexpr int agent_name = 0, agent_device = 17, agent_place = 0xA006, agent_domain = 0xA00F;
inline constexpr int system_dma_buf_supported = 0x204;
inline constexpr std::uint32_t device_gpu = 1;
}  // namespace amd

/// The layer below HIP (libhsa-runtime64, the instance that HIP itself uses). All null if it lacks
/// one of the first three; `export_dma_buf` is null before ROCm 5.4 (HSA_AMD 1.1).
struct hsa {
  amd::result (*system_info)(int which, void* into);
  amd::result (*iterate_agents)(amd::result (*each)(amd::agent which, void* with), void* with);
  amd::result (*agent_info)(amd::agent of, int which, void* into);
  amd::result (*export_dma_buf)(const void* from, std::size_t bytes, int* into,
                                std::uint64_t* offset_bytes);
};

/// The functions of the HIP runtime (libamdhip64). A device is its ordinal, as is hipDevice_t.
struct hip {
  amd::result (*init)(unsigned flags);
  amd::result (*runtime_version)(int* into);
  const char* (*error_name)(amd::result of);
  const char* (*error_string)(amd::result of);
  /// Returns and clears the calling thread's last error, which a user's own check after a kernel
  /// launch would otherwise report.
  amd::result (*last_error)();

  amd::result (*device_count)(int* into);
  amd::result (*get_device)(int* into);
  amd::result (*set_device)(int which);
  amd::result (*device_name)(char* into, int bytes, int of);
  /// For `hdp_memory_flush_register` it writes a pointer, eight bytes.
  amd::result (*device_attribute)(int* into, int which, int of);
  amd::result (*device_memory)(std::size_t* into, int of);
  amd::result (*device_pci)(char* into, int bytes, int of);
  amd::result (*device_uuid)(amd::uuid* into, int of);
  amd::result (*can_access_peer)(int* into, int from, int memory_of);
  amd::result (*enable_peer_access)(int to, unsigned flags);

  amd::result (*allocate)(void** into, std::size_t bytes);
  amd::result (*free)(void* which);
  amd::result (*allocate_host)(void** into, std::size_t bytes, unsigned flags);
  amd::result (*free_host)(void* which);
  amd::result (*register_host)(void* from, std::size_t bytes, unsigned flags);
  amd::result (*unregister_host)(void* from);
  amd::result (*host_address)(void** into, void* of, unsigned flags);
  amd::result (*pointer_attribute)(void* into, int which, void* of);
  amd::result (*address_range)(void** base, std::size_t* bytes, void* of);
  amd::result (*copy)(void* to, const void* from, std::size_t bytes, int kind, amd::stream on);
  amd::result (*fill)(void* to, int with, std::size_t bytes, amd::stream on);

  amd::result (*create_stream)(amd::stream* into, unsigned flags, int priority);
  amd::result (*destroy_stream)(amd::stream which);
  amd::result (*synchronize_stream)(amd::stream which);
  amd::result (*wait_event)(amd::stream which, amd::event for_, unsigned flags);
  amd::result (*is_capturing)(amd::stream which, int* into);
  /// Waits until the masked word is at least `value`, compared as numbers, not as counters that
  /// wrap.
  /// Null in run-times before 4.5.
  amd::result (*exchange_capture_mode)(amd::capture_mode* mode);
  amd::result (*wait_value)(amd::stream which, void* at, std::uint32_t value, unsigned flags,
                            std::uint32_t mask);
  amd::result (*write_value)(amd::stream which, void* at, std::uint32_t value, unsigned flags);
  amd::result (*launch_host)(amd::stream on, amd::host_function what, void* with);

  amd::result (*create_event)(amd::event* into, unsigned flags);
  amd::result (*destroy_event)(amd::event which);
  amd::result (*record_event)(amd::event which, amd::stream on);
  amd::result (*query_event)(amd::event which);  ///< `not_ready` until it completes

  amd::result (*get_ipc_handle)(amd::ipc_handle* into, void* of);
  amd::result (*open_ipc_handle)(void** into, amd::ipc_handle which, unsigned flags);
  amd::result (*close_ipc_handle)(void* which);
  /// Null before ROCm 7; `not_supported` if the device does not support it.
  amd::result (*flush_rdma_writes)(int target, int scope);

  amd::result (*load_module)(amd::module* into, const void* image);
  amd::result (*unload_module)(amd::module which);
  amd::result (*find_function)(amd::function* into, amd::module in, const char* name);
  amd::result (*launch)(amd::function what, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        amd::stream on, void** arguments, void** extra);

  hsa below;
};

/// The HIP library that this process has already loaded (PyTorch ships its own), else the loader's:
/// loaded and initialised on first use and never unloaded. Null if it is missing, lacks a function
/// or finds no device: `why` then has the reason and what to do. Any thread.
const hip* find_hip(std::string& why);

/// Makes `find_hip` return `by`; null: the machine's own again. For tests. Any thread, while no
/// accelerator is in use.
void replace_hip(const hip* by) noexcept;
/// Number of such replacements, to invalidate what was cached about the previous driver.
unsigned hip_replacements() noexcept;

/// The errno of opening the device file of the amdgpu compute driver. 0: it can be opened.
int kfd_open_error(const char* path = "/dev/kfd");

/// Why HIP reports no device, and what to do.
/// @param message  "hipInit returned hipErrorNoDevice"
/// @param failure  of `kfd_open_error`
std::string no_device_reason(std::string_view message, int failure);

}  // namespace tandem::detail
