# Simulated RDMA devices. libibverbs is not linked: its header is enough.
add_library(tandem_rdma_double OBJECT
  doubles/rdma/completions.cpp
  doubles/rdma/devices.cpp
  doubles/rdma/double.cpp
  doubles/rdma/events.cpp
  doubles/rdma/faults.cpp
  doubles/rdma/responder.cpp
  doubles/rdma/memory.cpp
  doubles/rdma/progress.cpp
  doubles/rdma/on_loopback.cpp
  doubles/rdma/posting.cpp
  doubles/rdma/queue_pairs.cpp
  doubles/rdma/world.cpp)
target_include_directories(tandem_rdma_double PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}")
target_link_libraries(tandem_rdma_double PUBLIC GTest::gtest tandem_verbs_header)
tandem_use_in_test(tandem_rdma_double OPTIMISED)

# Simulated GPUs.
add_library(tandem_cuda_double OBJECT
  doubles/cuda/contexts.cpp
  doubles/cuda/devices.cpp
  doubles/cuda/double.cpp
  doubles/cuda/events.cpp
  doubles/cuda/execution.cpp
  doubles/cuda/host_memory.cpp
  doubles/cuda/ipc.cpp
  doubles/cuda/memory.cpp
  doubles/cuda/modules.cpp
  doubles/cuda/copies.cpp
  doubles/cuda/pages.cpp
  doubles/cuda/names.cpp
  doubles/cuda/streams.cpp
  doubles/cuda/world.cpp)
target_include_directories(tandem_cuda_double PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}")
target_link_libraries(tandem_cuda_double PUBLIC GTest::gtest)
tandem_use_in_test(tandem_cuda_double OPTIMISED)

# Their kernel of messages, which has names of the device's compiler.
add_library(tandem_stream_kernels_on_host OBJECT support/stream_kernels_on_host.cpp)
target_include_directories(tandem_stream_kernels_on_host PRIVATE "${PROJECT_SOURCE_DIR}/tests" "${PROJECT_SOURCE_DIR}/collectives/src")
target_compile_options(tandem_stream_kernels_on_host PRIVATE -fno-strict-aliasing)
target_link_libraries(tandem_stream_kernels_on_host PUBLIC GTest::gtest)
tandem_use_in_test(tandem_stream_kernels_on_host OPTIMISED)

# Of tests/c/device_job.hpp, whose ranks are threads with GPUs in memory over a simulated library of their vendor.
set(tandem_device_job_sources
  "${PROJECT_SOURCE_DIR}/tests/collectives/slow.cpp"
  "${PROJECT_SOURCE_DIR}/tests/doubles/kernel_compiler_double.cpp"
  "${PROJECT_SOURCE_DIR}/tests/doubles/nccl/calls.cpp"
  "${PROJECT_SOURCE_DIR}/tests/doubles/nccl/communicators.cpp"
  "${PROJECT_SOURCE_DIR}/tests/doubles/nccl/double.cpp"
  "${PROJECT_SOURCE_DIR}/tests/doubles/nccl/execution.cpp"
  "${PROJECT_SOURCE_DIR}/tests/doubles/nccl/world.cpp"
  "${PROJECT_SOURCE_DIR}/tests/support/device_kernels.cpp"
  "${PROJECT_SOURCE_DIR}/tests/support/device_mirror.cpp")
