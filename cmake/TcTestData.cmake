# The folder testdata in the build folder, which tests read: links to what
# testdata/ stores, and the files that are made of it. Target: made_testdata.

add_executable(make_goldens ${CMAKE_SOURCE_DIR}/tests/make_goldens.cc)
target_link_libraries(make_goldens PRIVATE tc_gguf tc_tensor tc_base)

set(stored ${CMAKE_SOURCE_DIR}/testdata)
file(GLOB_RECURSE stored_files CONFIGURE_DEPENDS ${stored}/*)
list(FILTER stored_files EXCLUDE REGEX "^${stored}/fuzz/")
set(stamp ${CMAKE_BINARY_DIR}/testdata.stamp)
add_custom_command(OUTPUT ${stamp}
  COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/make_testdata.py
          ${stored} ${TC_TEST_DATA}
          ${CMAKE_CROSSCOMPILING_EMULATOR} $<TARGET_FILE:make_goldens>
  COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
  DEPENDS make_goldens ${stored_files}
          ${CMAKE_SOURCE_DIR}/tests/make_testdata.py
          ${CMAKE_SOURCE_DIR}/tests/gguf_bytes.py
  COMMENT "Making test data" VERBATIM)
add_custom_target(made_testdata DEPENDS ${stamp})
add_dependencies(all_tests made_testdata)
