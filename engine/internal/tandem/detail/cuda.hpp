#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tandem::detail {

/// Types and constants of cuda.h for the used part of the driver API: most builds do not have the
/// header. Values and layouts are those of CUDA 12.0, which later drivers keep for the symbols that
/// are looked up.
namespace cu {
using result = int;  ///< 0: success
using device = int;
using context = struct context_of*;
using stream = struct stream_of*;
using event = struct event_of*;
using module = struct module_of*;
using function = struct function_of*;
using address = unsigned long long;  ///< CUdeviceptr
using pages = unsigned long long;    ///< CUmemGenericAllocationHandle
struct uuid {
  std::array<char, 16> bytes;
};
struct ipc_handle {
  std::array<char, 64> bytes;
};
using host_function = void (*)(void* with);
/// CUmemcpyAttributes; the hints are for managed memory only.
struct copy_attributes {
  int source_order = 0;
  std::array<int, 2> source_hint{}, target_hint{};
  unsigned flags = 0;
};

/// CUmemAccessDesc: of one device, reading and writing.
struct page_access {
  int location_type = 1, device = 0, flags = 3;
};

inline constexpr result success = 0, invalid_value = 1, out_of_memory = 2, not_initialized = 3,
                        deinitialized = 4, stub_library = 34, no_device = 100,
                        invalid_context = 201, peer_access_already_enabled = 704,
                        host_memory_already_registered = 712, not_ready = 600, not_permitted = 800,
                        not_supported = 801;

// CUdevice_attribute
inline constexpr int multiprocessor_count = 16, async_engine_count = 40, unified_addressing = 41,
                     compute_capability_major = 75, compute_capability_minor = 76,
                     gpu_direct_rdma_supported = 116, gpu_direct_rdma_flush_options = 117,
                     gpu_direct_rdma_writes_ordering = 118, can_use_64_bit_stream_mem_ops = 122,
                     dma_buf_supported = 124, mps_enabled = 133;
// CUpointer_attribute
inline constexpr int pointer_memory_type = 2, pointer_sync_memops = 6, pointer_buffer_id = 7,
                     pointer_device_ordinal = 9, pointer_is_ipc_capable = 10;
inline constexpr unsigned memory_type_host = 1, memory_type_device = 2;

inline constexpr unsigned host_portable = 1, host_mapped = 2;  // of alloc and register
inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_disable_timing = 2;
inline constexpr unsigned ipc_lazy_enable_peer_access = 1;
/// Which calls the capture of a graph forbids: `relaxed`, none of this thread's.
enum class capture_mode : int { global = 0, thread_local_only = 1, relaxed = 2 };
inline constexpr unsigned wait_value_geq = 0;
inline constexpr int source_order_of_stream = 1;  // CUmemcpySrcAccessOrder
inline constexpr int dma_buf_descriptor = 1;      // CUmemRangeHandleType
inline constexpr int posix_descriptor = 1;        // CUmemAllocationHandleType
inline constexpr int flush_to_current_context = 0, flush_scope_owner = 100;
}  // namespace cu

/// The functions of the CUDA driver (libcuda.so.1), looked up by their exported names: for those
/// with a version suffix, the plain name is an older function.
struct cuda {
  cu::result (*init)(unsigned flags);
  cu::result (*driver_version)(int* into);
  cu::result (*error_name)(cu::result of, const char** into);
  cu::result (*error_string)(cu::result of, const char** into);

  cu::result (*device_count)(int* into);
  cu::result (*device_get)(cu::device* into, int ordinal);
  cu::result (*device_name)(char* into, int bytes, cu::device of);
  cu::result (*device_attribute)(int* into, int which, cu::device of);
  cu::result (*device_memory)(std::size_t* into, cu::device of);
  cu::result (*device_pci)(char* into, int bytes, cu::device of);
  cu::result (*device_uuid)(cu::uuid* into, cu::device of);
  cu::result (*can_access_peer)(int* into, cu::device from, cu::device memory_of);

  cu::result (*retain_primary)(cu::context* into, cu::device of);
  cu::result (*release_primary)(cu::device of);
  cu::result (*push_context)(cu::context which);
  cu::result (*pop_context)(cu::context* into);
  cu::result (*current_device)(cu::device* into);
  cu::result (*enable_peer_access)(cu::context to, unsigned flags);

  cu::result (*allocate)(cu::address* into, std::size_t bytes);
  cu::result (*free)(cu::address which);
  cu::result (*allocate_host)(void** into, std::size_t bytes, unsigned flags);
  cu::result (*free_host)(void* which);
  cu::result (*register_host)(void* from, std::size_t bytes, unsigned flags);
  cu::result (*unregister_host)(void* from);
  cu::result (*host_address)(cu::address* into, void* of, unsigned flags);
  cu::result (*pointer_attribute)(void* into, int which, cu::address of);
  cu::result (*address_range)(cu::address* base, std::size_t* bytes, cu::address of);
  cu::result (*copy)(cu::address to, cu::address from, std::size_t bytes, cu::stream on);
  /// Since CUDA 12.8. `attributes_from`: for each attribute, the index of the first copy it applies
  /// to.
  cu::result (*copy_many)(cu::address* to, cu::address* from, std::size_t* bytes, std::size_t count,
                          cu::copy_attributes* attributes, std::size_t* attributes_from,
                          std::size_t attributes_count, std::size_t* failed, cu::stream on);
  cu::result (*fill)(cu::address to, unsigned char with, std::size_t bytes, cu::stream on);

  cu::result (*create_stream)(cu::stream* into, unsigned flags, int priority);
  cu::result (*destroy_stream)(cu::stream which);
  cu::result (*synchronize_stream)(cu::stream which);
  cu::result (*wait_event)(cu::stream which, cu::event for_, unsigned flags);
  cu::result (*is_capturing)(cu::stream which, int* into);
  /// Null in drivers before 10.1.
  cu::result (*exchange_capture_mode)(cu::capture_mode* mode);
  cu::result (*wait_value)(cu::stream which, cu::address at, std::uint32_t value, unsigned flags);
  cu::result (*write_value)(cu::stream which, cu::address at, std::uint32_t value, unsigned flags);
  cu::result (*launch_host)(cu::stream on, cu::host_function what, void* with);

  cu::result (*create_event)(cu::event* into, unsigned flags);
  cu::result (*destroy_event)(cu::event which);
  cu::result (*record_event)(cu::event which, cu::stream on);
  cu::result (*query_event)(cu::event which);  ///< `not_ready` until it completes
  cu::result (*elapsed_ms)(float* into, cu::event from, cu::event to);

  cu::result (*get_ipc_handle)(cu::ipc_handle* into, cu::address of);
  cu::result (*open_ipc_handle)(cu::address* into, cu::ipc_handle which, unsigned flags);
  cu::result (*close_ipc_handle)(cu::address which);
  // Pages, which are mapped apart from being made. Null in drivers before 11.0.
  cu::result (*retain_pages)(cu::pages* into, void* mapped_at);
  cu::result (*release_pages)(cu::pages which);
  cu::result (*export_pages)(void* descriptor_into, cu::pages which, int type,
                             unsigned long long flags);
  cu::result (*import_pages)(cu::pages* into, void* descriptor, int type);
  cu::result (*reserve_addresses)(cu::address* into, std::size_t bytes, std::size_t alignment,
                                  cu::address near, unsigned long long flags);
  cu::result (*free_addresses)(cu::address which, std::size_t bytes);
  cu::result (*map_pages)(cu::address at, std::size_t bytes, std::size_t offset, cu::pages which,
                          unsigned long long flags);
  cu::result (*unmap_pages)(cu::address at, std::size_t bytes);
  cu::result (*set_access)(cu::address at, std::size_t bytes, const cu::page_access* to,
                           std::size_t count);
  /// Null in drivers before 11.7.
  cu::result (*export_range)(void* into, cu::address from, std::size_t bytes, int type,
                             unsigned long long flags);
  /// Null in drivers before 11.3.
  cu::result (*flush_rdma_writes)(int target, int scope);

  cu::result (*load_module)(cu::module* into, const void* image);
  cu::result (*unload_module)(cu::module which);
  cu::result (*find_function)(cu::function* into, cu::module in, const char* name);
  cu::result (*launch)(cu::function what, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       cu::stream on, void** arguments, void** extra);
};

/// The driver of this machine, loaded and initialised on first use and never unloaded; null if it
/// is missing, lacks a function, is the toolkit's stub or finds no device: `why` then has the
/// reason and what to do. Any thread.
const cuda* find_cuda(std::string& why);

/// Makes `find_cuda` return `by`; null: the machine's own again. For tests. Any thread, while no
/// accelerator is in use.
void replace_cuda(const cuda* by) noexcept;
/// Number of such replacements, to invalidate what was cached about the previous driver.
unsigned cuda_replacements() noexcept;

}  // namespace tandem::detail
