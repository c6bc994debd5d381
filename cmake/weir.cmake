# weir_library(NAME SOURCES ... LIBS ... INCLUDES ...): a static library with the project's flags.
function(weir_library name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS;INCLUDES" ${ARGN})
  add_library(${name} STATIC ${A_SOURCES})
  target_include_directories(${name} PUBLIC ${A_INCLUDES})
  target_link_libraries(${name} PRIVATE weir_flags PUBLIC ${A_LIBS} Threads::Threads)
endfunction()

# weir_program(NAME SOURCES ... LIBS ...): an executable at build/NAME, with mimalloc except in
# sanitizer builds.
function(weir_program name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE weir_flags)
  if(mimalloc_FOUND AND NOT WEIR_SANITIZE)
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/common/system/allocator.c)
    target_link_libraries(${name} PRIVATE -Wl,--push-state,--no-as-needed mimalloc -Wl,--pop-state)
  endif()
  target_link_libraries(${name} PRIVATE ${A_LIBS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR} BUILD_RPATH_USE_ORIGIN ON)
endfunction()

# The tests of `make test`. Sanitizer builds leave out those labelled `patient`, which `make soak`
# runs.
add_custom_target(weir_tests)
add_custom_target(weir_patient_tests)
# The programs of tests/unit that `make check` builds and runs: all without the label `patient`.
add_custom_target(weir_unit_tests)

# weir_test(NAME SOURCES ... LIBS ... LABELS ...): a cmocka test program run by ctest, named after
# its subject. Under ThreadSanitizer `weir_tests` builds only those labelled `tsan`: tests of shared
# state over instrumented libraries.
function(weir_test name)
  cmake_parse_arguments(A "" "" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(test_${name} ${A_SOURCES})
  target_link_libraries(test_${name} PRIVATE weir_flags ${A_LIBS} weir_cmocka m)
  set_target_properties(test_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(WEIR_SANITIZE AND "patient" IN_LIST A_LABELS)
    add_dependencies(weir_patient_tests test_${name})
  elseif(NOT WEIR_SANITIZE STREQUAL "thread" OR "tsan" IN_LIST A_LABELS)
    add_dependencies(weir_tests test_${name})
  endif()
  set(unit ${PROJECT_SOURCE_DIR}/tests/unit)
  cmake_path(IS_PREFIX unit ${CMAKE_CURRENT_SOURCE_DIR} is_unit)
  if(is_unit AND NOT "patient" IN_LIST A_LABELS)
    list(APPEND A_LABELS unit)
    add_dependencies(weir_unit_tests test_${name})
  endif()
  add_test(NAME ${name} COMMAND test_${name})
  # A failed assertion leaves threads and streams running, and no other test may run beside them.
  set_tests_properties(${name} PROPERTIES LABELS "${A_LABELS}" SKIP_RETURN_CODE 77 ENVIRONMENT CMOCKA_TEST_ABORT=1)
endfunction()
