# tc_cuda_library(NAME SOURCES x.cu...): two libraries of the same
# kernel files. NAME_on_host, always: plain C++ against src/cuda_on_host/, which
# is told of every load and store; for tests. NAME, where nvcc is: machine code
# for the architectures of TC_CUDA_ARCHITECTURES. Whether it is there:
# TARGET NAME.
# tc_cuda_on_host_library(NAME SOURCES x.cu...): the first of them alone.
# tc_cuda_mutants(NAME SOURCES x.cu...): those with an x_mutants.txt beside them,
# with mistakes put in, as a library for tests.
# tc_cuda_test(NAME LIBRARY library MUTANTS library PREFIX prefix SOURCES x_test.cc... DEPS
# rooms...): a test program on LIBRARY_on_host, and, where nvcc is, NAME_on_gpu of
# the same sources, which is built only when asked for and never run here.
# tc_portable(TARGET): a program that tools/gpu_folder.sh takes to another machine:
# what it and its libraries link is looked for in lib/ beside it first.

find_program(TC_NVCC nvcc PATHS /usr/local/cuda/bin $ENV{CUDA_HOME}/bin
             DOC "CUDA's compiler, 13.0 or later; OFF: none")
set(TC_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90 CACHE STRING
    "What nvcc compiles for; -real: machine code without PTX")
set(TC_NVCC_HOST_COMPILER "" CACHE FILEPATH
    "The C++ compiler below nvcc; empty: CMAKE_CXX_COMPILER")

# Why there is no NAME beside NAME_on_host; empty: there is.
set(tc_no_nvcc "")
if(CMAKE_CROSSCOMPILING)
  set(tc_no_nvcc "a cross build")
elseif(TC_SANITIZE)
  set(tc_no_nvcc "a build for sanitizers")
elseif(NOT TC_NVCC)
  set(tc_no_nvcc "no nvcc is installed, or TC_NVCC is off")
elseif(NOT EXISTS ${TC_NVCC})
  message(FATAL_ERROR "TC_NVCC names ${TC_NVCC}, which is not there")
endif()
if(tc_no_nvcc)
  message(STATUS "CUDA: kernels for the host alone: ${tc_no_nvcc}")
else()
  message(STATUS "CUDA: kernels by ${TC_NVCC}")
endif()

# nvcc is called by its own rule: CMake 3.25 knows no C++20 for CUDA and leaves
# the option out without a word.
if(NOT tc_no_nvcc)
  get_filename_component(tc_cuda_root ${TC_NVCC} REALPATH)
  get_filename_component(tc_cuda_root ${tc_cuda_root} DIRECTORY)
  get_filename_component(tc_cuda_root ${tc_cuda_root} DIRECTORY)
  find_file(TC_CUDART libcudart_static.a PATHS ${tc_cuda_root}/lib64
            ${tc_cuda_root}/lib ${tc_cuda_root}/targets/x86_64-linux/lib
            DOC "CUDA's runtime, beside nvcc")
  if(NOT TC_CUDART)
    message(FATAL_ERROR "libcudart_static.a is not beside ${TC_NVCC}: CUDA's "
                        "runtime is a package of its own; or set TC_NVCC=OFF")
  endif()
  if(NOT TC_NVCC_HOST_COMPILER)
    find_program(tc_nvcc_host_compiler ${CMAKE_CXX_COMPILER})
  else()
    set(tc_nvcc_host_compiler ${TC_NVCC_HOST_COMPILER})
  endif()
  set(tc_nvcc_flags -std=c++20 -O3 -ccbin ${tc_nvcc_host_compiler}
      # The same bits as the host's: a fused multiply-add is asked for by name.
      -fmad=false
      --compress-mode=size -Xptxas -warn-spills,-warn-lmem-usage
      -Werror all-warnings -Xcompiler -fPIC
      -I${CMAKE_SOURCE_DIR}/src)
  foreach(architecture ${TC_CUDA_ARCHITECTURES})
    string(REGEX MATCH "^[0-9]+" number ${architecture})
    if(architecture MATCHES "-real$")
      list(APPEND tc_nvcc_flags -gencode arch=compute_${number},code=sm_${number})
    else()
      list(APPEND tc_nvcc_flags
        -gencode arch=compute_${number},code=[sm_${number},compute_${number}])
    endif()
  endforeach()
endif()

function(tc_portable target)
  # As it is to be installed: else CMake adds an empty entry, which is the folder
  # that the program was started in.
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN/lib"
                        BUILD_WITH_INSTALL_RPATH ON)
  # The newer tag would not count for libraries of libraries.
  target_link_options(${target} PRIVATE -Wl,--disable-new-dtags)
endfunction()

function(tc_cuda_on_host_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  set_source_files_properties(${ARG_SOURCES} PROPERTIES LANGUAGE CXX)
  # -O1: more would merge accesses. Without tc_flags, which bring sanitizers:
  # kernels run on stacks and shadow memory of their own.
  target_compile_options(${name} PRIVATE ${tc_warnings} -O1
    -fsanitize-coverage=func,trace-loads,trace-stores)
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} INTERFACE tc_cuda_on_host)
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
endfunction()

function(tc_cuda_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  tc_cuda_on_host_library(${name}_on_host SOURCES ${ARG_SOURCES})
  if(tc_no_nvcc)
    return()
  endif()
  set(objects)
  foreach(source ${ARG_SOURCES})
    get_filename_component(path ${source} ABSOLUTE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${TC_NVCC} ${tc_nvcc_flags}
              -MD -MF ${object}.d -MT ${object} -c ${path} -o ${object}
      DEPENDS ${path} DEPFILE ${object}.d VERBATIM
      COMMENT "nvcc ${source}")
    list(APPEND objects ${object})
  endforeach()
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT ON
                              GENERATED ON)
  add_library(${name} STATIC ${objects})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_include_directories(${name} SYSTEM PUBLIC ${tc_cuda_root}/include)
  target_link_libraries(${name} PUBLIC ${TC_CUDART} Threads::Threads ${CMAKE_DL_LIBS} rt)
endfunction()

# Whether tests notice mistakes is seen once, in builds as users have them: under a
# sanitizer, which does not look into kernels, or on an emulated processor each
# mutant's code and runs are the same.
set(tc_no_mutants "")
if(TC_SANITIZE OR CMAKE_CROSSCOMPILING)
  set(tc_no_mutants --none)
endif()

function(tc_cuda_mutants name)
  cmake_parse_arguments(ARG "" "" "SOURCES" ${ARGN})
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(mutants)
  set(script ${CMAKE_SOURCE_DIR}/tools/cuda_mutants.py)
  foreach(source ${ARG_SOURCES})
    get_filename_component(path ${source} ABSOLUTE)
    get_filename_component(stem ${source} NAME_WE)
    string(REGEX REPLACE "\\.cu$" "_mutants.txt" table ${path})
    if(EXISTS ${table})
      set(out ${CMAKE_CURRENT_BINARY_DIR}/${stem}_mutants.cu)
      add_custom_command(OUTPUT ${out}
        COMMAND Python3::Interpreter ${script} ${tc_no_mutants} ${path}
                ${table} ${out}
        DEPENDS ${path} ${table} ${script} VERBATIM
        COMMENT "Mutants of ${stem}.cu")
      list(APPEND mutants ${out})
    endif()
  endforeach()
  tc_cuda_on_host_library(${name} SOURCES ${mutants})
  target_compile_options(${name} PRIVATE -w)
endfunction()

function(tc_cuda_test name)
  cmake_parse_arguments(ARG "" "LIBRARY;MUTANTS;PREFIX" "SOURCES;DEPS" ${ARGN})
  if(NOT TC_BUILD_TESTS)
    return()
  endif()
  list(TRANSFORM ARG_DEPS PREPEND tc_)
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARY}_on_host ${ARG_MUTANTS}
                        ${ARG_DEPS})
  set(left_out "")
  if(tc_no_mutants)
    set(left_out "*Mutants*")
  endif()
  tc_add_tests(${name} ${ARG_PREFIX} "${left_out}")
  if(TARGET ${ARG_LIBRARY})
    add_executable(${name}_on_gpu EXCLUDE_FROM_ALL ${ARG_SOURCES})
    target_link_libraries(${name}_on_gpu PRIVATE ${ARG_LIBRARY} tc_flags
                          ${ARG_DEPS} GTest::gtest_main GTest::gmock)
    target_compile_definitions(${name}_on_gpu PRIVATE
      TC_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    tc_portable(${name}_on_gpu)
  endif()
endfunction()
