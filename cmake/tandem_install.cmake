# The target that programs link against, and installation of the libraries with their CMake and pkg-config files.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

add_library(tandem INTERFACE)
add_library(tandem::tandem ALIAS tandem)
target_link_libraries(tandem INTERFACE tandem::engine tandem::channels tandem::collectives)
target_sources(tandem INTERFACE FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/cmake/include"
  FILES "${PROJECT_SOURCE_DIR}/cmake/include/tandem/tandem.hpp")
set_target_properties(tandem PROPERTIES VERIFY_INTERFACE_HEADER_SETS ${TANDEM_BUILD_TESTS})

set(tandem_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tandem")
install(TARGETS tandem_engine EXPORT tandem-targets FILE_SET HEADERS FILE_SET generated)
install(TARGETS tandem_channels tandem_collectives tandem EXPORT tandem-targets FILE_SET HEADERS)
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
