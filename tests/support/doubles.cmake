# Simulated RDMA devices. libibverbs is not linked: its header is enough.
add_library(tandem_rdma_double OBJECT
  support/rdma/completions.cpp
  support/rdma/devices.cpp
  support/rdma/double.cpp
  support/rdma/events.cpp
  support/rdma/faults.cpp
  support/rdma/responder.cpp
  support/rdma/memory.cpp
  support/rdma/progress.cpp
  support/rdma/on_loopback.cpp
  support/rdma/posting.cpp
  support/rdma/queue_pairs.cpp
  support/rdma/world.cpp)
target_include_directories(tandem_rdma_double PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}")
target_link_libraries(tandem_rdma_double PUBLIC GTest::gtest tandem_verbs_header)
tandem_use_in_test(tandem_rdma_double)

# Simulated GPUs.
add_library(tandem_cuda_double OBJECT
  support/cuda/contexts.cpp
  support/cuda/devices.cpp
  support/cuda/double.cpp
  support/cuda/events.cpp
  support/cuda/execution.cpp
  support/cuda/host_memory.cpp
  support/cuda/ipc.cpp
  support/cuda/memory.cpp
  support/cuda/modules.cpp
  support/cuda/copies.cpp
  support/cuda/names.cpp
  support/cuda/streams.cpp
  support/cuda/world.cpp)
target_include_directories(tandem_cuda_double PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}")
target_link_libraries(tandem_cuda_double PUBLIC GTest::gtest)
tandem_use_in_test(tandem_cuda_double)
