# tandem_test(NAME SOURCES... INCLUDE... LIBRARIES... TIMEOUT SECONDS SHARDS COUNT OPTIMISED ALONE): one executable of GoogleTest
# cases, each a test of ctest. Its label runs them in the sanitizer builds, too, where SHARDS processes (2) share them:
# a process takes half a second to start, and there are thousands of cases. With TANDEM_TEST_SHARDS so do the largest
# programs, those with SHARDS, in every build. ALONE: always one test for each case. A failed check of a sanitizer fails
# the test.
option(TANDEM_TEST_SHARDS "run the cases of the largest test programs in a few processes instead of one each" OFF)
function(tandem_test name)
  cmake_parse_arguments(TEST "ALONE;OPTIMISED" "TIMEOUT;SHARDS" "SOURCES;LIBRARIES;INCLUDE" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 120)
  endif()
  set(sharded ${TANDEM_TEST_SHARDS})
  if(NOT TEST_SHARDS)
    set(TEST_SHARDS 2)
    set(sharded OFF)
  endif()
  add_executable(${name} ${TEST_SOURCES})
  target_include_directories(${name} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}" ${TEST_INCLUDE})
  target_link_libraries(${name} PRIVATE ${TEST_LIBRARIES} tandem_test_support GTest::gtest_main)
  set(optimised)
  if(TEST_OPTIMISED)
    set(optimised OPTIMISED)
  endif()
  tandem_use_in_test(${name} ${optimised})
  # GCC 12's LeakSanitizer may fail (signal 11) on the thread-local data of a library that was opened at run time.
  set(sanitizers ENVIRONMENT_MODIFICATION "ASAN_OPTIONS=set:intercept_tls_get_addr=0")
  set(halts "UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1")
  if(TEST_ALONE OR NOT (sharded OR TANDEM_SANITIZE))
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES
      PROPERTIES LABELS sanitize TIMEOUT ${TEST_TIMEOUT} ENVIRONMENT "${halts}" ${sanitizers})
    return()
  endif()
  foreach(shard RANGE 1 ${TEST_SHARDS})
    math(EXPR index "${shard} - 1")
    add_test(NAME ${name}.${shard}_of_${TEST_SHARDS} COMMAND ${name})
    set_tests_properties(${name}.${shard}_of_${TEST_SHARDS} PROPERTIES LABELS sanitize TIMEOUT 1800 ${sanitizers} ENVIRONMENT
      "GTEST_TOTAL_SHARDS=${TEST_SHARDS};GTEST_SHARD_INDEX=${index};${halts}")
  endforeach()
endfunction()
