# The library, made of the rooms' objects, and how it is installed and found again.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

get_property(tandem_objects GLOBAL PROPERTY tandem_objects)
get_property(tandem_public_headers GLOBAL PROPERTY tandem_public_headers)
get_property(tandem_include_folders GLOBAL PROPERTY tandem_include_folders)
get_property(tandem_internal_folders GLOBAL PROPERTY tandem_internal_folders)

# Boost's headers are compiled into the library and into its users; its types are those of major.minor. FindBoost sets the
# first variable, Boost's own configuration the second.
string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" TANDEM_BOOST "${Boost_VERSION_STRING}${Boost_VERSION}")
math(EXPR TANDEM_BOOST_NUMBER "${CMAKE_MATCH_1} * 1000 + ${CMAKE_MATCH_2}")  # BOOST_VERSION / 100

# The umbrella header is made from the list of public headers, so it is complete.
set(tandem_generated "${PROJECT_BINARY_DIR}/include")
set(TANDEM_INCLUDES "")
foreach(header IN LISTS tandem_public_headers)
  foreach(folder IN LISTS tandem_include_folders)
    cmake_path(IS_PREFIX folder "${header}" is_inside)
    if(is_inside)
      cmake_path(RELATIVE_PATH header BASE_DIRECTORY "${folder}")
      string(APPEND TANDEM_INCLUDES "#include <${header}>\n")
      break()
    endif()
  endforeach()
endforeach()
configure_file("${CMAKE_CURRENT_LIST_DIR}/tandem.hpp.in" "${tandem_generated}/tandem/tandem.hpp" @ONLY)

# tandem_library(TARGET TYPE): a library of all rooms.
function(tandem_library target)
  add_library(${target} ${ARGN} ${tandem_objects})
  target_link_libraries(${target} PUBLIC Boost::headers Threads::Threads
    PRIVATE ${TANDEM_FMT} OpenSSL::SSL ${CMAKE_DL_LIBS})
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()

# Static or shared, as BUILD_SHARED_LIBS says.
tandem_library(tandem)
add_library(tandem::tandem ALIAS tandem)
# Each public header by itself; once is enough.
set(verifies_headers ${TANDEM_BUILD_TESTS})
if(TANDEM_SANITIZE)
  set(verifies_headers OFF)
endif()
set_target_properties(tandem PROPERTIES VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} VERIFY_INTERFACE_HEADER_SETS ${verifies_headers})
target_sources(tandem PUBLIC FILE_SET HEADERS BASE_DIRS ${tandem_include_folders} "${tandem_generated}"
  FILES ${tandem_public_headers} "${tandem_generated}/tandem/tandem.hpp" "${tandem_generated}/tandem/version.hpp")

# What apps, tests and benchmarks link: they also use headers and symbols that are not installed.
if(BUILD_SHARED_LIBS)
  tandem_library(tandem_internal STATIC EXCLUDE_FROM_ALL)
  target_include_directories(tandem_internal INTERFACE ${tandem_include_folders} "${tandem_generated}")
else()
  add_library(tandem_internal INTERFACE)
  target_link_libraries(tandem_internal INTERFACE tandem)
endif()
target_include_directories(tandem_internal INTERFACE ${tandem_internal_folders})

set(tandem_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tandem")
# INCLUDES: CMake before 3.23 ignores the file set of an imported target, and with it the include folder.
install(TARGETS tandem EXPORT tandem-targets FILE_SET HEADERS INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT tandem-targets NAMESPACE tandem:: DESTINATION "${tandem_config_dir}")

configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/tandem-config.cmake.in"
  "${PROJECT_BINARY_DIR}/tandem-config.cmake" INSTALL_DESTINATION "${tandem_config_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/tandem-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/tandem-config.cmake" "${PROJECT_BINARY_DIR}/tandem-config-version.cmake"
  DESTINATION "${tandem_config_dir}")

# Paths in tandem.pc are relative to the file, so that an installed tree can be moved.
file(RELATIVE_PATH TANDEM_PREFIX_FROM_PKGCONFIG "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file("${CMAKE_CURRENT_LIST_DIR}/tandem.pc.in" "${PROJECT_BINARY_DIR}/tandem.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/tandem.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

# A project that contains Tandem has a documentation folder of its own name.
set(tandem_doc_dir "${CMAKE_INSTALL_DATAROOTDIR}/doc/tandem")
if(PROJECT_IS_TOP_LEVEL)
  set(tandem_doc_dir "${CMAKE_INSTALL_DOCDIR}")
endif()
install(FILES LICENSE README.md cmake/CHANGELOG.md cmake/VERSIONS.md DESTINATION "${tandem_doc_dir}")
install(DIRECTORY apps/examples DESTINATION "${tandem_doc_dir}" FILES_MATCHING PATTERN "*.cpp" PATTERN CMakeLists.txt)
