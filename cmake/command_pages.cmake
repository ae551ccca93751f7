# Manual pages and completions of the program `tandem`, which prints them: included by apps/, and run as a script when
# the program has been built (cmake -D PROGRAM=tandem -D FOLDER=share -P cmake/command_pages.cmake).

if(CMAKE_SCRIPT_MODE_FILE)
  file(REMOVE_RECURSE "${FOLDER}")  # pages of subcommands that exist no more
  # write(FILE ARGS...): what the program prints.
  function(write file)
    cmake_path(GET file PARENT_PATH parent)
    file(MAKE_DIRECTORY "${FOLDER}/${parent}")
    execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_FILE "${FOLDER}/${file}" COMMAND_ERROR_IS_FATAL ANY)
  endfunction()

  execute_process(COMMAND ${PROGRAM} manual --list OUTPUT_VARIABLE pages OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" pages "${pages}")
  foreach(page IN LISTS pages)
    write(man/man1/${page}.1 manual ${page})
  endforeach()
  write(bash-completion/completions/tandem completion bash)
  write(zsh/site-functions/_tandem completion zsh)
  write(fish/vendor_completions.d/tandem.fish completion fish)
  return()
endif()

# A program for another machine cannot print them, and one of a sanitizer is not for installation.
if((CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR) OR TANDEM_SANITIZE OR TANDEM_FUZZ)
  message(STATUS "tandem: no manual pages and completions in this build")
  return()
endif()
set(tandem_pages "${CMAKE_CURRENT_BINARY_DIR}/share")
add_custom_command(OUTPUT "${tandem_pages}.made"
  COMMAND "${CMAKE_COMMAND}" "-DPROGRAM=${CMAKE_CROSSCOMPILING_EMULATOR};$<TARGET_FILE:tandem_command>"
    "-DFOLDER=${tandem_pages}" -P "${CMAKE_CURRENT_LIST_FILE}"
  COMMAND "${CMAKE_COMMAND}" -E touch "${tandem_pages}.made"
  DEPENDS tandem_command "${CMAKE_CURRENT_LIST_FILE}" COMMENT "Manual pages and completions" VERBATIM)
add_custom_target(tandem_pages ALL DEPENDS "${tandem_pages}.made")
install(DIRECTORY "${tandem_pages}/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}")
install(DIRECTORY "${tandem_pages}/" DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}" PATTERN man EXCLUDE)
