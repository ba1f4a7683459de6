# The same targets as TcLibraries.cmake, for another processor. Debian's
# libraries for it would need a foreign architecture on the system, so only
# header-only use of them is offered, and GoogleTest is built from its source
# package. That is enough for the rooms below os/ and kernels/.

find_package(Threads REQUIRED)

# /usr/include itself holds this machine's C library, so each library's folder
# is linked into a private include folder.
set(cross_include ${CMAKE_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${cross_include})
foreach(folder fmt tl hwy nlohmann)
  if(NOT EXISTS /usr/include/${folder})
    message(FATAL_ERROR "/usr/include/${folder} is missing; "
                        "run tools/install_packages.sh build")
  endif()
  file(CREATE_LINK /usr/include/${folder} ${cross_include}/${folder} SYMBOLIC)
endforeach()

foreach(library fmt::fmt tl::expected PkgConfig::HWY
        nlohmann_json::nlohmann_json)
  add_library(${library} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${library} INTERFACE ${cross_include})
endforeach()
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
target_compile_definitions(PkgConfig::HWY INTERFACE HWY_COMPILE_ONLY_STATIC)

if(TC_BUILD_TESTS)
  set(INSTALL_GTEST OFF CACHE BOOL "" FORCE)
  add_subdirectory(/usr/src/googletest ${CMAKE_BINARY_DIR}/googletest
                   EXCLUDE_FROM_ALL SYSTEM)
endif()
