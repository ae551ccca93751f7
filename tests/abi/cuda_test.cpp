#include <cuda.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <tandem/detail/cuda.hpp>

#include "abi/same_shape.hpp"

#if CUDA_VERSION < 12080 || CUDA_VERSION >= 13000
// Headers of CUDA 13 declare only the later function of this name; Tandem looks up that of 12.8.
#undef cuMemcpyBatchAsync
extern "C" CUresult cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes,
                                       size_t count, void* attributes, size_t* attributes_from,
                                       size_t attributes_count, size_t* failed, CUstream on);
#endif

// struct cuda against NVIDIA's header: a difference is a compile error.

namespace tandem::test {
namespace {

namespace cu = detail::cu;
using detail::cuda;

#define TANDEM_FUNCTION(member, name)                                       \
  static_assert(same_shape<decltype(cuda::member), decltype(&name)>::value, \
                #member " is not what cuda.h calls " #name);
#define TANDEM_OPTIONAL_FUNCTION(member, name) TANDEM_FUNCTION(member, name)
#include "drivers/cuda_functions.inc"

static_assert(cu::success == CUDA_SUCCESS);
static_assert(cu::invalid_value == CUDA_ERROR_INVALID_VALUE);
static_assert(cu::out_of_memory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(cu::not_initialized == CUDA_ERROR_NOT_INITIALIZED);
static_assert(cu::deinitialized == CUDA_ERROR_DEINITIALIZED);
static_assert(cu::stub_library == CUDA_ERROR_STUB_LIBRARY);
static_assert(cu::no_device == CUDA_ERROR_NO_DEVICE);
static_assert(cu::invalid_context == CUDA_ERROR_INVALID_CONTEXT);
static_assert(cu::peer_access_already_enabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(cu::host_memory_already_registered == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
static_assert(cu::not_ready == CUDA_ERROR_NOT_READY);
static_assert(cu::not_permitted == CUDA_ERROR_NOT_PERMITTED);
static_assert(cu::not_supported == CUDA_ERROR_NOT_SUPPORTED);

static_assert(cu::multiprocessor_count == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(cu::async_engine_count == CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
static_assert(cu::unified_addressing == CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
static_assert(cu::compute_capability_major == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(cu::compute_capability_minor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(cu::gpu_direct_rdma_supported == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
static_assert(cu::gpu_direct_rdma_flush_options ==
              CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
static_assert(cu::gpu_direct_rdma_writes_ordering ==
              CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
static_assert(cu::can_use_64_bit_stream_mem_ops ==
              CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
static_assert(cu::dma_buf_supported == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);

static_assert(cu::pointer_memory_type == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(cu::pointer_sync_memops == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
static_assert(cu::pointer_device_ordinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(cu::pointer_is_ipc_capable == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
static_assert(cu::memory_type_host == CU_MEMORYTYPE_HOST);
static_assert(cu::memory_type_device == CU_MEMORYTYPE_DEVICE);

static_assert(cu::host_portable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(cu::host_portable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(cu::host_mapped == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(cu::host_mapped == CU_MEMHOSTREGISTER_DEVICEMAP);
static_assert(cu::stream_non_blocking == CU_STREAM_NON_BLOCKING);
static_assert(cu::event_disable_timing == CU_EVENT_DISABLE_TIMING);
static_assert(cu::ipc_lazy_enable_peer_access == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(cu::wait_value_geq == CU_STREAM_WAIT_VALUE_GEQ);
#if CUDA_VERSION >= 12080
static_assert(sizeof(cu::copy_attributes) == sizeof(CUmemcpyAttributes));
static_assert(offsetof(cu::copy_attributes, flags) == offsetof(CUmemcpyAttributes, flags));
static_assert(cu::source_order_of_stream == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
#endif
static_assert(cu::dma_buf_descriptor == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
static_assert(cu::flush_to_current_context == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
static_assert(cu::flush_scope_owner == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
static_assert(sizeof(cu::address) == sizeof(CUdeviceptr));

}  // namespace

TEST(abi, cuda_function_table_matches_the_header) {
  RecordProperty("CUDA_VERSION", CUDA_VERSION);
  SUCCEED() << "CUDA_VERSION " << CUDA_VERSION;
}

}  // namespace tandem::test
