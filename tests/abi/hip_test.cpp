#include <gtest/gtest.h>
#include <hip/hip_runtime_api.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <tandem/detail/hip.hpp>

#include "abi/same_shape.hpp"

// struct hip and struct hsa against AMD's headers: a difference is a compile error.

namespace tandem::test {
namespace {

namespace amd = detail::amd;
using detail::hip;
using detail::hsa;

#define TANDEM_FUNCTION(member, name)                                        \
  static_assert(same_shape<decltype(hip::member), decltype(&::name)>::value, \
                #member " is not what hip_runtime_api.h calls " #name);
#ifdef TANDEM_HIP_HEADER_HAS_FLUSH
#define TANDEM_OPTIONAL_FUNCTION(member, name) TANDEM_FUNCTION(member, name)
#else
#define TANDEM_OPTIONAL_FUNCTION(member, name)  // newer than this header
#endif
#include "drivers/hip_functions.inc"

#define TANDEM_FUNCTION(member, name)                                        \
  static_assert(same_shape<decltype(hsa::member), decltype(&::name)>::value, \
                #member " is not what hsa.h calls " #name);
#if HSA_AMD_INTERFACE_VERSION_MAJOR > 1 || HSA_AMD_INTERFACE_VERSION_MINOR > 0
#define TANDEM_OPTIONAL_FUNCTION(member, name) TANDEM_FUNCTION(member, name)
#else
#define TANDEM_OPTIONAL_FUNCTION(member, name)  // newer than this header
#endif
#include "drivers/hsa_functions.inc"

static_assert(amd::success == hipSuccess);
static_assert(amd::invalid_value == hipErrorInvalidValue);
static_assert(amd::out_of_memory == hipErrorOutOfMemory);
static_assert(amd::not_initialized == hipErrorNotInitialized);
static_assert(amd::no_device == hipErrorNoDevice);
static_assert(amd::invalid_device == hipErrorInvalidDevice);
static_assert(amd::invalid_context == hipErrorInvalidContext);
static_assert(amd::no_binary_for_gpu == hipErrorNoBinaryForGpu);
static_assert(amd::not_found == hipErrorNotFound);
static_assert(amd::not_ready == hipErrorNotReady);
static_assert(amd::illegal_address == hipErrorIllegalAddress);
static_assert(amd::peer_access_already_enabled == hipErrorPeerAccessAlreadyEnabled);
static_assert(amd::host_memory_already_registered == hipErrorHostMemoryAlreadyRegistered);
static_assert(amd::launch_failure == hipErrorLaunchFailure);
static_assert(amd::not_supported == hipErrorNotSupported);

static_assert(amd::async_engine_count == hipDeviceAttributeAsyncEngineCount);
static_assert(amd::multiprocessor_count == hipDeviceAttributeMultiprocessorCount);
static_assert(amd::hdp_memory_flush_register == hipDeviceAttributeHdpMemFlushCntl);
static_assert(amd::can_use_stream_wait_value == hipDeviceAttributeCanUseStreamWaitValue);
static_assert(amd::pointer_memory_type == HIP_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(amd::pointer_buffer_id == HIP_POINTER_ATTRIBUTE_BUFFER_ID);
static_assert(amd::pointer_device_ordinal == HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(amd::memory_type_device(HIP_VERSION_MAJOR) == hipMemoryTypeDevice);

static_assert(amd::host_portable == hipHostMallocPortable);
static_assert(amd::host_portable == hipHostRegisterPortable);
static_assert(amd::host_mapped == hipHostMallocMapped);
static_assert(amd::host_mapped == hipHostRegisterMapped);
static_assert(amd::host_coherent == hipHostMallocCoherent);
static_assert(amd::stream_non_blocking == hipStreamNonBlocking);
static_assert(amd::event_disable_timing == hipEventDisableTiming);
static_assert(amd::event_release_to_system == hipEventReleaseToSystem);
static_assert(amd::ipc_lazy_enable_peer_access(HIP_VERSION_MAJOR) == hipIpcMemLazyEnablePeerAccess);
static_assert(amd::wait_value_geq == hipStreamWaitValueGte);
static_assert(amd::copy_any == hipMemcpyDefault);
static_assert(amd::major_of(HIP_VERSION) == HIP_VERSION_MAJOR);
static_assert(amd::minor_of(HIP_VERSION) == HIP_VERSION_MINOR);
#ifdef TANDEM_HIP_HEADER_HAS_FLUSH
static_assert(amd::flush_to_current_device == hipFlushGPUDirectRDMAWritesTargetCurrentDevice);
static_assert(amd::flush_scope_owner == hipFlushGPUDirectRDMAWritesToOwner);
#endif

static_assert(amd::agent_name == HSA_AGENT_INFO_NAME);
static_assert(amd::agent_device == HSA_AGENT_INFO_DEVICE);
static_assert(static_cast<int>(amd::agent_place) == static_cast<int>(HSA_AMD_AGENT_INFO_BDFID));
static_assert(static_cast<int>(amd::agent_domain) == static_cast<int>(HSA_AMD_AGENT_INFO_DOMAIN));
static_assert(amd::device_gpu == HSA_DEVICE_TYPE_GPU);
static_assert(amd::success == HSA_STATUS_SUCCESS);
#if HSA_AMD_INTERFACE_VERSION_MAJOR > 1 || HSA_AMD_INTERFACE_VERSION_MINOR > 0
static_assert(static_cast<int>(amd::system_dma_buf_supported) ==
              static_cast<int>(HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED));
#endif

}  // namespace

TEST(abi, hip_function_table_matches_the_header) {
  RecordProperty("HIP_VERSION", HIP_VERSION);
  SUCCEED() << "HIP_VERSION " << HIP_VERSION;
}

}  // namespace tandem::test
