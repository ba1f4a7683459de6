# tc_room(NAME DEPS rooms... LIBS targets...): one folder under src/ becomes one
# static library tc_NAME, one test program NAME_test from its *_test.cc files,
# and one fuzz program NAME_STEM_fuzz per *_fuzz.cc file.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(tc_flags INTERFACE)
target_include_directories(tc_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(tc_flags INTERFACE -Wall -Wextra -Wshadow
  -Wnon-virtual-dtor -Wno-missing-field-initializers
  # A fused multiply-add that one compiler makes and another does not would
  # change logits from build to build; kernels ask for it by name.
  -ffp-contract=off)
if(TC_WERROR)
  target_compile_options(tc_flags INTERFACE -Werror)
endif()
if(TC_SANITIZE)
  target_compile_options(tc_flags INTERFACE -fsanitize=${TC_SANITIZE}
    -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tc_flags INTERFACE -fsanitize=${TC_SANITIZE})
endif()
if(TC_BUILD_FUZZERS)
  target_compile_options(tc_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

function(tc_room name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
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

  if(TC_BUILD_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE tc_${name} GTest::gtest_main
                                               GTest::gmock)
    target_compile_definitions(${name}_test PRIVATE
      TC_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    gtest_discover_tests(${name}_test TEST_PREFIX "${name}."
      DISCOVERY_MODE PRE_TEST WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
      PROPERTIES TIMEOUT 600)
  endif()

  if(TC_BUILD_FUZZERS)
    foreach(source ${fuzzers})
      get_filename_component(stem ${source} NAME_WE)
      add_executable(${name}_${stem} ${source})
      target_link_libraries(${name}_${stem} PRIVATE tc_${name})
      target_link_options(${name}_${stem} PRIVATE -fsanitize=fuzzer)
    endforeach()
  endif()
endfunction()
