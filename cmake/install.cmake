# `cmake --install`, which `make install` calls: programs, libweir.so, headers, weir.pc, a package
# for find_package(weir), man pages, shell completion, documents. All of it works from any folder:
# programs and libraries find each other relative to themselves.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weir)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
set(doc_dir ${CMAKE_INSTALL_DATAROOTDIR}/doc/weir) # links between the documents hold, as in the tree

file(RELATIVE_PATH bin_to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
set_target_properties(weir weir-server weir-worker PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
install(TARGETS weir weir-server weir-worker RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# Releases with the same first number have the same SONAME: programs linked to one run with the
# other.
set_target_properties(weir_shared PROPERTIES EXPORT_NAME weir INSTALL_RPATH "$ORIGIN")
install(TARGETS weir_shared EXPORT weir LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY common/include/weir worker/include/weir DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT weir NAMESPACE weir:: FILE weirConfig.cmake DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/weirConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/weirConfigVersion.cmake DESTINATION ${package_dir})
file(RELATIVE_PATH pkgconfig_to_prefix /${pkgconfig_dir} /)
string(REGEX REPLACE "/$" "" pkgconfig_to_prefix "${pkgconfig_to_prefix}")
configure_file(cmake/weir.pc.in ${CMAKE_BINARY_DIR}/weir.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/weir.pc DESTINATION ${pkgconfig_dir})

# The CUDA backend, where it is built. Programs look for it at ../lib (kernels/backend_open.c).
install(FILES ${CMAKE_BINARY_DIR}/lib/libweir_cuda.so DESTINATION lib OPTIONAL)

install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md DESTINATION ${doc_dir})
install(DIRECTORY docs config DESTINATION ${doc_dir} PATTERN "*.local.yaml" EXCLUDE)

# Man pages and completion are made by running the programs.
if(NOT CMAKE_CROSSCOMPILING AND NOT WEIR_SANITIZE AND NOT WEIR_FUZZ AND NOT WEIR_SYNTAX_ONLY)
  set(manual ${CMAKE_BINARY_DIR}/manual)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/scripts/manual/*)
  add_custom_command(OUTPUT ${manual}/made
    COMMAND ${CMAKE_SOURCE_DIR}/scripts/manual.sh ${CMAKE_BINARY_DIR} ${manual} ${PROJECT_VERSION}
    COMMAND ${CMAKE_COMMAND} -E touch ${manual}/made
    DEPENDS weir weir-server weir-worker ${CMAKE_SOURCE_DIR}/scripts/manual.sh ${sources}
    COMMENT "Making man pages and shell completion" VERBATIM)
  add_custom_target(weir_manual ALL DEPENDS ${manual}/made)
  install(DIRECTORY ${manual}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  foreach(program weir weir-server weir-worker) # bash-completion loads a file by the program's name
    install(FILES ${manual}/bash/weir DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions RENAME ${program})
  endforeach()
  install(FILES ${manual}/zsh/_weir DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/zsh/site-functions)
endif()
