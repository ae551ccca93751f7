// The exported functions of NCCL 2.28 to 2.30 and of RCCL that Tandem does not have. Programs that
// are linked to them start nevertheless. Each is called with the arguments of nccl.h, which the
// calling convention lets it ignore.
#include <fmt/format.h>

#include "failure.hpp"

using namespace tandem::nccl_abi;

namespace {

result unsupported(const char* name, const char* why) noexcept {
  return guarded(nullptr, [&] { refuse(invalid_usage, fmt::format("{}: {}", name, why)); });
}

constexpr auto needs_kernels =
    "kernels that communicate themselves are not available: they would need access to the memory "
    "of another vendor's device";
constexpr auto needs_new_ranks =
    "a communicator keeps its ranks: make a new one of all of them, with a new unique id";
constexpr auto needs_parameters =
    "parameters of NCCL are not available: `tandem options` lists Tandem's settings";
constexpr auto needs_simulation = "calls are not simulated";
constexpr auto needs_memory_management = "a communicator's memory is not released while it exists";
constexpr auto needs_programs = "programs of MSCCL are not available";
constexpr auto needs_bias = "call ncclAllReduce, and add the bias in a kernel";

}  // namespace

#define TANDEM_UNSUPPORTED(name, why)      \
  TANDEM_NCCL_FUNCTION(result, name, ()) { \
    return unsupported(#name, why);        \
  }

TANDEM_UNSUPPORTED(ncclGroupSimulateEnd, needs_simulation)
TANDEM_UNSUPPORTED(ncclCommGetUniqueId, needs_new_ranks)
TANDEM_UNSUPPORTED(ncclCommGrow, needs_new_ranks)
TANDEM_UNSUPPORTED(ncclCommSuspend, needs_memory_management)
TANDEM_UNSUPPORTED(ncclCommResume, needs_memory_management)
TANDEM_UNSUPPORTED(ncclCommMemStats, needs_memory_management)
TANDEM_UNSUPPORTED(ncclCommQueryProperties, needs_kernels)
TANDEM_UNSUPPORTED(ncclDevCommCreate, needs_kernels)
TANDEM_UNSUPPORTED(ncclDevCommDestroy, needs_kernels)
TANDEM_UNSUPPORTED(ncclWinGetUserPtr, needs_kernels)
TANDEM_UNSUPPORTED(ncclGetLsaDevicePointer, needs_kernels)
TANDEM_UNSUPPORTED(ncclGetLsaMultimemDevicePointer, needs_kernels)
TANDEM_UNSUPPORTED(ncclGetMultimemDevicePointer, needs_kernels)
TANDEM_UNSUPPORTED(ncclGetPeerDevicePointer, needs_kernels)
TANDEM_UNSUPPORTED(ncclPutSignal, needs_kernels)
TANDEM_UNSUPPORTED(ncclSignal, needs_kernels)
TANDEM_UNSUPPORTED(ncclWaitSignal, needs_kernels)
TANDEM_UNSUPPORTED(ncclParamBind, needs_parameters)
TANDEM_UNSUPPORTED(ncclParamDumpAll, needs_parameters)
TANDEM_UNSUPPORTED(ncclParamGet, needs_parameters)
TANDEM_UNSUPPORTED(ncclParamGetAllParameterKeys, needs_parameters)
TANDEM_UNSUPPORTED(ncclParamGetI16, needs_parameters)
TANDEM_UNSUPPORTED(ncclParamGetI32, needs_parameters)
TANDEM_UNSUPPORTED(ncclParamGetI64, needs_parameters)
TANDEM_UNSUPPORTED(ncclParamGetI8, needs_parameters)
TANDEM_UNSUPPORTED(ncclParamGetParameter, needs_parameters)
TANDEM_UNSUPPORTED(ncclParamGetStr, needs_parameters)
TANDEM_UNSUPPORTED(ncclParamGetU16, needs_parameters)
TANDEM_UNSUPPORTED(ncclParamGetU32, needs_parameters)
TANDEM_UNSUPPORTED(ncclParamGetU64, needs_parameters)
TANDEM_UNSUPPORTED(ncclParamGetU8, needs_parameters)
TANDEM_UNSUPPORTED(mscclLoadAlgo, needs_programs)
TANDEM_UNSUPPORTED(mscclRunAlgo, needs_programs)
TANDEM_UNSUPPORTED(mscclUnloadAlgo, needs_programs)
TANDEM_UNSUPPORTED(ncclAllReduceWithBias, needs_bias)
