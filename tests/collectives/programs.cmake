# The test programs of collectives: on channels in memory, on simulated devices, and on simulated vendor libraries.
tandem_test(collective_tests
  INCLUDE "${PROJECT_SOURCE_DIR}/collectives/src"
  SOURCES
    collectives/any_source_test.cpp
    collectives/board_test.cpp
    collectives/collectives_test.cpp
    collectives/descriptors_test.cpp
    collectives/every_call.cpp
    collectives/failure_test.cpp
    collectives/islands/division_test.cpp
    collectives/islands/library_log_test.cpp
    collectives/islands/library_watch_test.cpp
    collectives/islands/loss_watch_test.cpp
    collectives/islands/routes_test.cpp
    collectives/killed_test.cpp
    collectives/lifetime_test.cpp
    collectives/metrics_test.cpp
    collectives/mismatch_test.cpp
    collectives/data_movement_test.cpp
    collectives/pipeline_failure_test.cpp
    collectives/pipeline_test.cpp
    collectives/rewritten_test.cpp
    collectives/schedule_messages_test.cpp
    collectives/schedule_test.cpp
    collectives/split_test.cpp
    collectives/typed_test.cpp
    collectives/mapped_window_test.cpp
    collectives/window_test.cpp)

tandem_test(plan_tests
  INCLUDE "${PROJECT_SOURCE_DIR}/collectives/src"
  SOURCES
    collectives/plan/make_communicator_test.cpp
    collectives/plan/facts_test.cpp
    collectives/plan/pins_test.cpp
    collectives/parallel/choice_test.cpp
    collectives/parallel/layout_test.cpp
    collectives/plan/plan_test.cpp
    collectives/two_level_blocks_test.cpp
    collectives/two_level_test.cpp)

tandem_test(reduction_tests TIMEOUT 300 OPTIMISED
  INCLUDE "${PROJECT_SOURCE_DIR}/collectives/src"
  SOURCES
    collectives/inputs.cpp
    collectives/nan_test.cpp
    collectives/reduce/all_reduce_test.cpp
    collectives/reduce/device_cache_test.cpp
    collectives/reduce/amd_source_test.cpp
    collectives/reduce/device_source_test.cpp
    collectives/reduce/kernels_test.cpp
    collectives/reduce/reducer_test.cpp
    collectives/slow.cpp
    collectives/reducing_test.cpp
    support/device_kernels.cpp
    doubles/kernel_compiler_double.cpp)
add_test(NAME collectives.kernels_for_nvidia
  COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/collectives/with_nvrtc" "$<TARGET_FILE:reduction_tests>")
set_tests_properties(collectives.kernels_for_nvidia PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77)
tandem_test(device_collective_tests OPTIMISED
  INCLUDE "${PROJECT_SOURCE_DIR}/collectives/src"
  SOURCES
    collectives/inputs.cpp
    collectives/device_failure_test.cpp
    collectives/device_pipeline_test.cpp
    collectives/device_test.cpp
    collectives/device_window_test.cpp
    collectives/kernel_collectives_test.cpp
    collectives/kernel_messages_test.cpp
    collectives/kernel_steps_test.cpp
    collectives/relay_window_test.cpp
    collectives/slot_launch_test.cpp
    collectives/stream_messages_test.cpp
    collectives/plan/device_plan_test.cpp
    collectives/slow.cpp
    support/device_kernels.cpp
    support/device_mirror.cpp
    doubles/kernel_compiler_double.cpp
  LIBRARIES tandem_stream_kernels_on_host tandem_cuda_double tandem_rdma_double)
# Islands over a simulated collective library.
tandem_test(island_tests TIMEOUT 300
  INCLUDE "${PROJECT_SOURCE_DIR}/collectives/src"
  SOURCES
    collectives/islands/island_call.cpp
    collectives/islands/island_failures_test.cpp
    collectives/islands/islands_test.cpp
    collectives/parallel/group_failures_test.cpp
    collectives/parallel/groups_test.cpp
    collectives/slow.cpp
    support/device_kernels.cpp
    support/device_mirror.cpp
    doubles/kernel_compiler_double.cpp
    doubles/nccl/calls.cpp
    doubles/nccl/execution.cpp
    doubles/nccl/double.cpp
    doubles/nccl/communicators.cpp
    doubles/nccl/world.cpp
  LIBRARIES tandem_stream_kernels_on_host tandem_hip_on_cuda tandem_cuda_double)
