# Run on the accelerators of a machine by bench/gpu; without them each test names what is missing and is skipped.
# Paths are those of tests/.
tandem_test(gpu_tests ALONE TIMEOUT 300
  INCLUDE "${PROJECT_SOURCE_DIR}/collectives/src"
  SOURCES
    collectives/slow.cpp
    gpu/device.cpp
    gpu/kernels.cpp
    gpu/reductions.cpp)

# These start themselves as ranks.
tandem_test(gpu_peer_tests ALONE TIMEOUT 300 SOURCES gpu/peer.cpp)
tandem_test(gpu_island_tests ALONE TIMEOUT 300
  INCLUDE "${PROJECT_SOURCE_DIR}/collectives/src"
  SOURCES
    collectives/islands/island_call.cpp
    collectives/slow.cpp
    gpu/islands.cpp)
