#pragma once

#include <tandem/memory.hpp>

namespace tandem::nccl_abi {

/// Which memory the calling thread's communicators are for.
struct own_memory {
  memory_kind kind = memory_kind::host;
  int device = 0;
};

/// The calling thread's current device: of CUDA, else of HIP (in librccl the other way round). With
/// TANDEM_NCCL_HOST=1, host memory. @par Errors thrown: `failure`: there is no device.
own_memory memory_of_thread();
/// The same, and host memory where there is no device.
own_memory memory_of_thread_or_host() noexcept;

}  // namespace tandem::nccl_abi
