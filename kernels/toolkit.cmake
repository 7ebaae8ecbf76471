# Looks for a CUDA toolkit as SPECBOUND_CUDA asks; sets SPECBOUND_HAVE_CUDA, and enables the
# language where there is one. Without a toolkit nothing else in the tree changes.

set(SPECBOUND_HAVE_CUDA OFF)
find_program(SPECBOUND_NVCC nvcc PATHS /usr/local/cuda/bin DOC "CUDA compiler")
mark_as_advanced(SPECBOUND_NVCC)
set(obstacle "")
if(SPECBOUND_SANITIZE OR SPECBOUND_FUZZ)
  set(obstacle "not in builds with sanitizers or fuzzers")
elseif(NOT SPECBOUND_NVCC)
  set(obstacle "no nvcc on PATH or in /usr/local/cuda/bin")
else()
  execute_process(COMMAND ${SPECBOUND_NVCC} --version OUTPUT_VARIABLE about ERROR_VARIABLE about)
  string(REGEX MATCH "release ([0-9.]+)" release "${about}")
  if(NOT release OR CMAKE_MATCH_1 VERSION_LESS 13.0)
    set(obstacle "needs CUDA toolkit 13, found ${SPECBOUND_NVCC} (${release})")
  else()
    if(SPECBOUND_CUDA_ARCHS STREQUAL native AND CMAKE_VERSION VERSION_LESS 3.24)
      message(FATAL_ERROR "SPECBOUND_CUDA_ARCHS=native needs CMake 3.24, found ${CMAKE_VERSION}: "
        "name the architecture, as 86 for an RTX 3090 or 89 for an RTX 4090")
    endif()
    set(CMAKE_CUDA_ARCHITECTURES 75)  # of this probe: each target names its own
    set(ENV{CUDACXX} ${SPECBOUND_NVCC})
    include(CheckLanguage)
    check_language(CUDA)
    if(NOT CMAKE_CUDA_COMPILER)
      set(obstacle "${SPECBOUND_NVCC} cannot compile here, see ${CMAKE_BINARY_DIR}/CMakeFiles")
    endif()
  endif()
endif()

if(NOT obstacle)
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  endif()
  set(SPECBOUND_HAVE_CUDA ON)
elseif(SPECBOUND_CUDA STREQUAL "AUTO")
  message(STATUS "CUDA kernels: off (${obstacle})")
else()
  message(FATAL_ERROR "SPECBOUND_CUDA is ON, but: ${obstacle}. Install CUDA toolkit 13, put nvcc "
    "on PATH or name it with -D SPECBOUND_NVCC=FILE, or configure with -D SPECBOUND_CUDA=OFF.")
endif()
