# The tests of tests/simt on a GPU: the same files, compiled as CUDA. Without a GPU they all skip.
# Programs that start where nothing of ours is installed: packaging/gpu_session.sh takes them along.

find_package(doctest REQUIRED)
set(tests ${CMAKE_SOURCE_DIR}/tests)
file(GLOB gpu_sources CONFIGURE_DEPENDS ${tests}/simt/*_test.cpp)
set(own_kernels ${tests}/simt/intrinsics_test.cpp)  # compiled for each architecture
list(REMOVE_ITEM gpu_sources ${own_kernels}
  ${tests}/simt/executor_test.cpp)  # about the executor itself
list(FILTER gpu_sources EXCLUDE REGEX "_host_test\\.cpp$")  # about the engine's host side
list(APPEND gpu_sources ${tests}/simt/gpu_main.cu)
set_source_files_properties(${gpu_sources} ${own_kernels} PROPERTIES LANGUAGE CUDA)
add_library(gpu_test_objects OBJECT EXCLUDE_FROM_ALL ${gpu_sources})
set_target_properties(gpu_test_objects PROPERTIES CUDA_ARCHITECTURES 75-virtual)
target_include_directories(gpu_test_objects PRIVATE ${tests})
target_link_libraries(gpu_test_objects PRIVATE specbound_kernels specbound_training
  doctest::doctest)

function(specbound_gpu_program name kernels archs)
  add_executable(${name} EXCLUDE_FROM_ALL ${ARGN})
  set_target_properties(${name} PROPERTIES CUDA_ARCHITECTURES "${archs}")
  target_include_directories(${name} PRIVATE ${tests})
  target_link_libraries(${name} PRIVATE specbound_training ${kernels} doctest::doctest
    -static-libstdc++ -static-libgcc)
endfunction()
specbound_gpu_program(gpu_tests specbound_kernels "${SPECBOUND_CUDA_ARCHS}" ${own_kernels}
  $<TARGET_OBJECTS:gpu_test_objects>)

# Every architecture's code path on one card: its PTX alone, compiled by the driver.
foreach(arch 75 80 86 89 90 120)
  specbound_kernels(specbound_kernels_ptx${arch} ${arch}-virtual)
  specbound_gpu_program(gpu_tests_ptx${arch} specbound_kernels_ptx${arch} ${arch}-virtual
    ${own_kernels} $<TARGET_OBJECTS:gpu_test_objects>)
endforeach()

# The text itself, of what decoding runs, of prefill's attention and of the tests' own kernels, for
# tests/ptx.
set(text_sources ${kernel_sources} ${own_kernels})
list(FILTER text_sources EXCLUDE REGEX "/(prefill_gemm|training)[.]cu$")
foreach(arch 75 90)
  add_library(kernels_ptx${arch} OBJECT EXCLUDE_FROM_ALL ${text_sources})
  set_target_properties(kernels_ptx${arch} PROPERTIES CUDA_PTX_COMPILATION ON
    CUDA_ARCHITECTURES ${arch}-virtual)
  target_include_directories(kernels_ptx${arch} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${tests})
  target_link_libraries(kernels_ptx${arch} PRIVATE specbound_core specbound_training
    doctest::doctest)
endforeach()

file(GLOB bench_sources CONFIGURE_DEPENDS ${tests}/bench/gpu_*.cu)
specbound_gpu_program(gpu_kernels specbound_kernels 75-virtual ${bench_sources})

# Run by `ctest -C Cuda` (packaging/test.sh), when gpu_tests is built.
add_test(NAME gpu CONFIGURATIONS Cuda COMMAND gpu_tests)
set_tests_properties(gpu PROPERTIES LABELS cuda)
# For three architectures each, as packaging/test.sh takes turns; the PTX of 75 and 90 does too.
foreach(archs "75 86 90" "80 89 120")
  separate_arguments(archs)
  list(GET archs 0 first)
  add_test(NAME spills${first} CONFIGURATIONS Cuda
    COMMAND ${Python3_EXECUTABLE} -B ${tests}/spill_check.py ${CMAKE_BINARY_DIR} --archs ${archs})
  set_tests_properties(spills${first} PROPERTIES LABELS cuda)
endforeach()
