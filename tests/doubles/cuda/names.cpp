#include <array>

#include "doubles/cuda/world.hpp"

namespace tandem::test::cuda {
namespace {

struct named {
  const char* member;
  const char* exported;
};

constexpr std::array functions{
    named{"init", "cuInit"},
    named{"driver_version", "cuDriverGetVersion"},
    named{"error_name", "cuGetErrorName"},
    named{"error_string", "cuGetErrorString"},
    named{"device_count", "cuDeviceGetCount"},
    named{"device_get", "cuDeviceGet"},
    named{"device_name", "cuDeviceGetName"},
    named{"device_attribute", "cuDeviceGetAttribute"},
    named{"device_memory", "cuDeviceTotalMem"},
    named{"device_pci", "cuDeviceGetPCIBusId"},
    named{"device_uuid", "cuDeviceGetUuid"},
    named{"can_access_peer", "cuDeviceCanAccessPeer"},
    named{"retain_primary", "cuDevicePrimaryCtxRetain"},
    named{"release_primary", "cuDevicePrimaryCtxRelease"},
    named{"push_context", "cuCtxPushCurrent"},
    named{"pop_context", "cuCtxPopCurrent"},
    named{"current_device", "cuCtxGetDevice"},
    named{"enable_peer_access", "cuCtxEnablePeerAccess"},
    named{"allocate", "cuMemAlloc"},
    named{"free", "cuMemFree"},
    named{"allocate_host", "cuMemHostAlloc"},
    named{"free_host", "cuMemFreeHost"},
    named{"register_host", "cuMemHostRegister"},
    named{"unregister_host", "cuMemHostUnregister"},
    named{"host_address", "cuMemHostGetDevicePointer"},
    named{"pointer_attribute", "cuPointerGetAttribute"},
    named{"address_range", "cuMemGetAddressRange"},
    named{"copy", "cuMemcpyAsync"},
    named{"copy_many", "cuMemcpyBatchAsync"},
    named{"fill", "cuMemsetD8Async"},
    named{"create_stream", "cuStreamCreateWithPriority"},
    named{"destroy_stream", "cuStreamDestroy"},
    named{"synchronize_stream", "cuStreamSynchronize"},
    named{"wait_event", "cuStreamWaitEvent"},
    named{"is_capturing", "cuStreamIsCapturing"},
    named{"exchange_capture_mode", "cuThreadExchangeStreamCaptureMode"},
    named{"wait_value", "cuStreamWaitValue32"},
    named{"write_value", "cuStreamWriteValue32"},
    named{"launch_host", "cuLaunchHostFunc"},
    named{"create_event", "cuEventCreate"},
    named{"destroy_event", "cuEventDestroy"},
    named{"record_event", "cuEventRecord"},
    named{"query_event", "cuEventQuery"},
    named{"elapsed_ms", "cuEventElapsedTime"},
    named{"get_ipc_handle", "cuIpcGetMemHandle"},
    named{"open_ipc_handle", "cuIpcOpenMemHandle"},
    named{"close_ipc_handle", "cuIpcCloseMemHandle"},
    named{"retain_pages", "cuMemRetainAllocationHandle"},
    named{"release_pages", "cuMemRelease"},
    named{"export_pages", "cuMemExportToShareableHandle"},
    named{"import_pages", "cuMemImportFromShareableHandle"},
    named{"reserve_addresses", "cuMemAddressReserve"},
    named{"free_addresses", "cuMemAddressFree"},
    named{"map_pages", "cuMemMap"},
    named{"unmap_pages", "cuMemUnmap"},
    named{"set_access", "cuMemSetAccess"},
    named{"export_range", "cuMemGetHandleForAddressRange"},
    named{"flush_rdma_writes", "cuFlushGPUDirectRDMAWrites"},
    named{"load_module", "cuModuleLoadData"},
    named{"unload_module", "cuModuleUnload"},
    named{"find_function", "cuModuleGetFunction"},
    named{"launch", "cuLaunchKernel"},
};

struct result_words {
  cu::result value;
  const char* name;
  const char* text;
};

constexpr std::array results{
    result_words{cu::success, "CUDA_SUCCESS", "no error"},
    result_words{cu::invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    result_words{cu::out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    result_words{cu::not_initialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    result_words{cu::deinitialized, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    result_words{cu::stub_library, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    result_words{46, "CUDA_ERROR_DEVICE_UNAVAILABLE",
                 "CUDA-capable device(s) is/are busy or unavailable"},
    result_words{cu::no_device, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    result_words{invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    result_words{invalid_image, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    result_words{cu::invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    result_words{map_failed, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed"},
    result_words{already_mapped, "CUDA_ERROR_ALREADY_MAPPED", "resource already mapped"},
    result_words{peer_access_unsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
                 "peer access is not supported between these two devices"},
    result_words{invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    result_words{not_found, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    result_words{cu::not_ready, "CUDA_ERROR_NOT_READY", "device not ready"},
    result_words{illegal_address, "CUDA_ERROR_ILLEGAL_ADDRESS",
                 "an illegal memory access was encountered"},
    result_words{cu::peer_access_already_enabled, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
                 "peer access is already enabled"},
    result_words{cu::host_memory_already_registered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
                 "part or all of the requested memory range is already mapped"},
    result_words{host_memory_not_registered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
                 "pointer does not correspond to a registered memory region"},
    result_words{launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    result_words{cu::not_permitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    result_words{cu::not_supported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    result_words{capture_unsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
                 "operation not permitted when stream is capturing"},
    result_words{999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

template <const char* result_words::*Words>
cu::result say(cu::result of, const char** into) {
  for (const result_words& each : results) {
    if (each.value == of) return *into = each.*Words, cu::success;
  }
  *into = nullptr;
  return cu::invalid_value;
}

}  // namespace

std::string exported_name(const std::string& of) {
  const std::string plain = of.ends_with("_v2") ? of.substr(0, of.size() - 3) : of;
  for (const named& each : functions) {
    if (plain == each.member || plain == each.exported) return each.exported;
  }
  return {};
}

void fill_words(detail::cuda& table) {
  table.error_name = say<&result_words::name>;
  table.error_string = say<&result_words::text>;
}

}  // namespace tandem::test::cuda
