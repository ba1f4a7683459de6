# tc_room(NAME DEPS rooms... LIBS targets... [FUZZED x.cc...]): one folder under src/
# becomes one static library tc_NAME, one test program NAME_test from its *_test.cc
# files, and one fuzz program NAME_STEM_fuzz per *_fuzz.cc file. FUZZED: the files
# that fuzzing is about, where most of a large room is not.
# tc_test(NAME DEPS rooms... LIBS targets...): tests/NAME.cc becomes a test
# program that may use any room.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(tc_flags INTERFACE)
target_include_directories(tc_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
set(tc_warnings -Wall -Wextra -Wshadow
  -Wnon-virtual-dtor -Wno-missing-field-initializers
  # A fused multiply-add that one compiler makes and another does not would
  # change logits from build to build; kernels ask for it by name.
  -ffp-contract=off)
if(TC_WERROR)
  list(APPEND tc_warnings -Werror)
endif()
target_compile_options(tc_flags INTERFACE ${tc_warnings})
if(TC_SANITIZE)
  target_compile_options(tc_flags INTERFACE -fsanitize=${TC_SANITIZE}
    -fno-omit-frame-pointer -fno-sanitize-recover=all
    # A fifth of the time to compile, for what AddressSanitizer sees as well: where
    # such a pointer reaches.
    -fno-sanitize=pointer-overflow,null,object-size)
  target_link_options(tc_flags INTERFACE -fsanitize=${TC_SANITIZE})
endif()
if(TC_BUILD_FUZZERS)
  add_custom_target(fuzzers COMMENT "All fuzz programs are built")
endif()
if(TC_BUILD_TESTS)
  add_custom_target(all_tests COMMENT "All test programs are built")
  add_custom_target(header_check COMMENT "Every header compiles alone")
endif()

# Leaves out of a list what lies in a subfolder with a CMakeLists.txt of its own.
function(tc_without_own_folders list)
  file(GLOB lists ${CMAKE_CURRENT_SOURCE_DIR}/*/CMakeLists.txt)
  set(files ${${list}})
  foreach(own ${lists})
    get_filename_component(folder ${own} DIRECTORY)
    get_filename_component(folder ${folder} NAME)
    get_filename_component(room ${CMAKE_CURRENT_SOURCE_DIR} NAME)
    list(FILTER files EXCLUDE REGEX "(^|/)${room}/${folder}/")
  endforeach()
  set(${list} ${files} PARENT_SCOPE)
endfunction()
# Where tests find what they read (TcTestData.cmake); beside the program, where
# the scripts look for it.
set(TC_TEST_DATA ${CMAKE_BINARY_DIR}/testdata)

# A third argument: cases that are not run, as GoogleTest's filter has them.
function(tc_add_tests target prefix)
  target_compile_definitions(${target} PRIVATE
    TC_SOURCE_DIR="${CMAKE_SOURCE_DIR}" TC_TEST_DATA="${TC_TEST_DATA}")
  target_link_libraries(${target} PRIVATE GTest::gtest_main GTest::gmock)
  # A third of the time to compile; the code under test keeps its optimisation.
  # Tests of kernels compute the truth themselves: half their time.
  if(prefix MATCHES "^kernels")
    target_compile_options(${target} PRIVATE -O1)
  else()
    target_compile_options(${target} PRIVATE -O0)
  endif()
  set(suites ${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.cmake)
  file(GENERATE OUTPUT ${suites} CONTENT "
set(TC_PROGRAM $<TARGET_FILE:${target}>)
set(TC_LAUNCHER ${CMAKE_CROSSCOMPILING_EMULATOR})
set(TC_PREFIX ${prefix})
set(TC_LEFT_OUT ${ARGN})
set(TC_DIRECTORY ${CMAKE_SOURCE_DIR})
include(${CMAKE_SOURCE_DIR}/cmake/TcSuites.cmake)
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${suites})
  add_dependencies(all_tests ${target})
  # The rooms below gguf read no files: they are built and tested also where the
  # test data cannot be made.
  if(TARGET tc_gguf)
    add_dependencies(${target} made_testdata)
  endif()
endfunction()

# Compiles each header of the room on its own, twice in one file so that a
# missing include guard shows too. A header with a .cc of its own name is
# compiled alone there, as its first include; those share a file, and so do
# those for tests, where gtest would take most of the time. Part of no other
# target: ./test asks for it.
function(tc_check_headers name)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/src
       ${CMAKE_CURRENT_SOURCE_DIR}/*.h)
  tc_without_own_folders(headers)
  set(sources)
  set(included_by_own "")
  set(for_tests "")
  foreach(header ${headers})
    set(twice "#include \"${header}\"\n#include \"${header}\"\n")
    string(REGEX REPLACE "\\.h$" ".cc" own ${CMAKE_SOURCE_DIR}/src/${header})
    if(EXISTS ${own})
      file(STRINGS ${own} first REGEX "^#include" LIMIT_COUNT 1)
      if(NOT first STREQUAL "#include \"${header}\"")
        message(FATAL_ERROR "${own} has to include ${header} first")
      endif()
      string(APPEND included_by_own ${twice})
      continue()
    elseif(header MATCHES "/test_[^/]*$")
      string(APPEND for_tests ${twice})
      continue()
    endif()
    set(source ${CMAKE_CURRENT_BINARY_DIR}/header_check/${header}.cc)
    file(CONFIGURE OUTPUT ${source} @ONLY CONTENT "${twice}")
    list(APPEND sources ${source})
  endforeach()
  foreach(shared included_by_own for_tests)
    if(${shared})
      set(source ${CMAKE_CURRENT_BINARY_DIR}/header_check/${shared}.cc)
      file(CONFIGURE OUTPUT ${source} @ONLY CONTENT "${${shared}}")
      list(APPEND sources ${source})
    endif()
  endforeach()
  if(sources)
    add_library(${name}_headers OBJECT EXCLUDE_FROM_ALL ${sources})
    target_link_libraries(${name}_headers PRIVATE tc_${name})
    target_compile_definitions(${name}_headers PRIVATE
      TC_SOURCE_DIR="${CMAKE_SOURCE_DIR}" TC_TEST_DATA="${TC_TEST_DATA}")
    target_compile_options(${name}_headers PRIVATE -O0 -Wno-unused)
    set_target_properties(${name}_headers PROPERTIES UNITY_BUILD OFF)
    add_dependencies(header_check ${name}_headers)
  endif()
endfunction()

function(tc_room name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS;FUZZED" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  tc_without_own_folders(sources)
  set(tests ${sources})
  set(fuzzers ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|_fuzz|/main)\\.cc$")
  list(TRANSFORM ARG_DEPS PREPEND tc_)

  if(sources)
    add_library(tc_${name} STATIC ${sources})
    target_link_libraries(tc_${name} PUBLIC tc_flags ${ARG_DEPS} ${ARG_LIBS})
  else()
    add_library(tc_${name} INTERFACE)
    target_link_libraries(tc_${name} INTERFACE tc_flags ${ARG_DEPS} ${ARG_LIBS})
  endif()

  if(TC_BUILD_TESTS)
    tc_check_headers(${name})
    if(tests AND (NOT TC_TEST_ROOMS OR name IN_LIST TC_TEST_ROOMS))
      add_executable(${name}_test ${tests})
      target_link_libraries(${name}_test PRIVATE tc_${name})
      tc_add_tests(${name}_test ${name})
    endif()
  endif()

  if(TC_BUILD_FUZZERS AND fuzzers)
    # What fuzzing counts: the branches of the room under test, or of these files.
    if(ARG_FUZZED)
      set_source_files_properties(${ARG_FUZZED} PROPERTIES
                                  COMPILE_OPTIONS -fsanitize=fuzzer-no-link)
    else()
      target_compile_options(tc_${name} PRIVATE -fsanitize=fuzzer-no-link)
    endif()
    foreach(source ${fuzzers})
      get_filename_component(stem ${source} NAME_WE)
      add_executable(${name}_${stem} ${source})
      target_link_libraries(${name}_${stem} PRIVATE tc_${name})
      target_link_options(${name}_${stem} PRIVATE -fsanitize=fuzzer)
      target_compile_definitions(${name}_${stem} PRIVATE
        TC_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
      set_target_properties(${name}_${stem} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzzers)
      add_dependencies(fuzzers ${name}_${stem})
    endforeach()
  endif()
endfunction()

function(tc_test name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS" ${ARGN})
  list(TRANSFORM ARG_DEPS PREPEND tc_)
  add_executable(${name} ${name}.cc)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} ${ARG_LIBS})
  tc_add_tests(${name} tests.${name})
endfunction()
