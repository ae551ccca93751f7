# Settings shared by all targets: language standard, warnings, sanitizers, precompiled headers.

add_library(tandem_build INTERFACE)
target_compile_features(tandem_build INTERFACE cxx_std_20)
target_compile_options(tandem_build INTERFACE -Wall -Wextra -Wpedantic -Woverloaded-virtual
  $<$<BOOL:${TANDEM_WARNINGS_AS_ERRORS}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports a false positive on coroutine frames and on Asio's recycled memory.
  target_compile_options(tandem_build INTERFACE -Wno-maybe-uninitialized -Wno-mismatched-new-delete
    -Wno-tsan -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict)
endif()
if(TANDEM_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # In a unity build every file is an included one and sees the names of the others. Clang has no such option.
  target_compile_options(tandem_build INTERFACE -Wno-subobject-linkage -Wshadow=local)
elseif(NOT TANDEM_UNITY)
  target_compile_options(tandem_build INTERFACE -Wshadow)
endif()
if(TANDEM_FUZZ)
  target_compile_options(tandem_build INTERFACE -fsanitize=fuzzer-no-link,address -fno-omit-frame-pointer -g1)
  target_link_options(tandem_build INTERFACE -fsanitize=address)
endif()
if(TANDEM_SANITIZE)
  target_compile_options(tandem_build INTERFACE -fsanitize=${TANDEM_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(tandem_build INTERFACE -fsanitize=${TANDEM_SANITIZE})
  if(TANDEM_SANITIZE MATCHES "address.*undefined")
    # These checks instrument every pointer access and more than double the compile time. AddressSanitizer detects most of
    # what they do; the preset ubsan has all of them.
    target_compile_options(tandem_build INTERFACE -fno-sanitize=null,object-size,vptr,alignment,pointer-overflow)
  endif()
endif()

# tandem_together(TARGET): unity build by folder: common headers are parsed, and common templates instantiated, once per
# folder. Sources with compile options of their own stay separate.
function(tandem_together target)
  if(NOT TANDEM_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "of_${folder}" group)
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP ${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# tandem_precompile(TARGET FAMILY HEADERS...): the precompiled header, compiled once (ten seconds) for all targets of a
# family, which share their compile options.
function(tandem_precompile target family)
  get_property(first GLOBAL PROPERTY tandem_precompiled_for_${family})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/precompiled.hpp" ${ARGN})
    set_property(GLOBAL PROPERTY tandem_precompiled_for_${family} ${target})
  endif()
endfunction()

# tandem_room(NAME SOURCES... HEADERS... DEPENDS...): the objects of one room, with its public headers (HEADERS, installed)
# in include/, headers for other rooms in internal/ and private ones in src/. The library `tandem` is made of all rooms.
function(tandem_room room)
  cmake_parse_arguments(ROOM "" "" "SOURCES;HEADERS;DEPENDS" ${ARGN})
  add_library(tandem_${room} OBJECT ${ROOM_SOURCES})
  target_include_directories(tandem_${room} PUBLIC include internal PRIVATE src)
  target_link_libraries(tandem_${room} PUBLIC Boost::headers Threads::Threads ${ROOM_DEPENDS}
    PRIVATE tandem_build ${TANDEM_FMT})
  target_compile_features(tandem_${room} PUBLIC cxx_std_20)
  set_target_properties(tandem_${room} PROPERTIES CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  tandem_precompile(tandem_${room} rooms)
  tandem_together(tandem_${room})
  list(TRANSFORM ROOM_HEADERS PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  set_property(GLOBAL APPEND PROPERTY tandem_public_headers ${ROOM_HEADERS})
  set_property(GLOBAL APPEND PROPERTY tandem_include_folders "${CMAKE_CURRENT_SOURCE_DIR}/include")
  set_property(GLOBAL APPEND PROPERTY tandem_internal_folders "${CMAKE_CURRENT_SOURCE_DIR}/internal")
  set_property(GLOBAL APPEND PROPERTY tandem_objects $<TARGET_OBJECTS:tandem_${room}>)
endfunction()

# tandem_use(TARGET): settings of an app or a benchmark.
function(tandem_use target)
  target_link_libraries(${target} PRIVATE tandem_internal tandem_build ${TANDEM_FMT})
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  tandem_precompile(${target} programs)
  tandem_together(${target})
endfunction()

# tandem_use_in_test(TARGET OPTIMISED): settings of test code, since compiling it takes longer than running it: -O1 in
# Release, and -O0 for sanitizers, which halves the time to compile it; not for code that runs long (OPTIMISED: doubles,
# data, references). The libraries under test keep their usual options.
function(tandem_use_in_test target)
  set(family tests)
  target_link_libraries(${target} PRIVATE tandem_internal tandem_build ${TANDEM_FMT} GTest::gtest)
  if(TANDEM_SANITIZE AND NOT OPTIMISED IN_LIST ARGN)
    target_compile_options(${target} PRIVATE -O0)
    set(family tests_not_optimised)
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  tandem_precompile(${target} ${family} "${PROJECT_SOURCE_DIR}/tests/precompiled.hpp")
  tandem_together(${target})
endfunction()

# tandem_commit(VARIABLE): the commit of the checkout, for benchmark records.
function(tandem_commit variable)
  execute_process(COMMAND git describe --always --dirty=+dirty --abbrev=12 --exclude=*
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE commit RESULT_VARIABLE failed
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(failed)
    set(commit unknown)
  endif()
  set(${variable} "${commit}" PARENT_SCOPE)
endfunction()
