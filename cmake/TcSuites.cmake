# Names the suites of one GoogleTest program to ctest, when ctest starts: a test
# is a suite, not a case, since a process for each of some thousand cases costs
# more than what most of them do. Wants TC_PROGRAM,
# TC_LAUNCHER (an emulator, or empty), TC_PREFIX, TC_DIRECTORY,
# TC_LEFT_OUT (cases that are not run, or empty).
# A suite whose name ends in LongDraws (long random draws) or that
# TcLongSuites.cmake names gets the label "long", which sanitizers and qemu leave
# out.

include(${CMAKE_CURRENT_LIST_DIR}/TcLongSuites.cmake)

if(NOT EXISTS ${TC_PROGRAM})
  add_test(${TC_PREFIX}_NOT_BUILT ${TC_PROGRAM})
  return()
endif()
execute_process(COMMAND ${TC_LAUNCHER} ${TC_PROGRAM} --gtest_list_tests
  WORKING_DIRECTORY ${TC_DIRECTORY}
  OUTPUT_VARIABLE tc_listing ERROR_VARIABLE tc_errors RESULT_VARIABLE tc_result)
if(NOT tc_result EQUAL 0)
  message(FATAL_ERROR
    "${TC_PROGRAM} does not list its tests: ${tc_result}\n${tc_errors}")
endif()
string(REGEX REPLACE "[][;]" "_" tc_listing "${tc_listing}")
string(REPLACE "\n" ";" tc_listing "${tc_listing}")
set(tc_minus "")
if(TC_LEFT_OUT)
  set(tc_minus "-${TC_LEFT_OUT}")
endif()
foreach(tc_line ${tc_listing})
  if(NOT tc_line MATCHES "^([A-Za-z0-9_/]+)\\.( |$)")
    continue()
  endif()
  set(tc_suite ${CMAKE_MATCH_1})
  set(tc_name ${TC_PREFIX}.${tc_suite})
  add_test(${tc_name} ${TC_LAUNCHER} ${TC_PROGRAM} --gtest_filter=${tc_suite}.*${tc_minus})
  set_tests_properties(${tc_name} PROPERTIES TIMEOUT 600
    WORKING_DIRECTORY ${TC_DIRECTORY})
  list(FIND tc_long_suites ${tc_name} tc_place)
  if(tc_suite MATCHES "LongDraws$" OR NOT tc_place EQUAL -1)
    set_tests_properties(${tc_name} PROPERTIES LABELS long)
    list(REMOVE_ITEM tc_long_suites ${tc_name})
  endif()
endforeach()
# A name that is none would let its suite back in without a word.
foreach(tc_left ${tc_long_suites})
  if(tc_left MATCHES "^${TC_PREFIX}\\.[^.]+$")
    message(FATAL_ERROR "TcLongSuites.cmake names ${tc_left}, which is no suite")
  endif()
endforeach()
