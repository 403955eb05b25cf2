# The CUDA toolkit: enables the language and leaves SAETA_WITH_CUDA. No driver is needed to build.

include_guard(GLOBAL)

saeta_feature_wanted(CUDA wanted)
if(wanted)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    find_program(saeta_nvcc nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
    mark_as_advanced(saeta_nvcc)
    if(saeta_nvcc)
      set(CMAKE_CUDA_COMPILER "${saeta_nvcc}")
    endif()
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    # Machine code for these generations and PTX of the last one for those that follow.
    set(CMAKE_CUDA_ARCHITECTURES "75-real;80-real;90")
  endif()

  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      # CMake 3.25 does not know yet that nvcc has C++20.
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    endif()
    # nvcc's host compiler may be another than the C++ compiler, with a static libstdc++ first on its path: the run-time
    # libraries are the C++ compiler's to choose, or a process ends up with several. backend/cuda names the CUDA runtime.
    set(CMAKE_CUDA_RUNTIME_LIBRARY None)
    set(CMAKE_CUDA_IMPLICIT_LINK_LIBRARIES "")
    set(CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES "")
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    find_package(CUDAToolkit REQUIRED)
    list(JOIN CMAKE_CUDA_ARCHITECTURES ", " shown)
    saeta_feature_found(CUDA "toolkit ${CUDAToolkit_VERSION}, architectures ${shown}")
  else()
    saeta_feature_missing(CUDA "no CUDA toolkit was found (nvcc on the PATH, in CUDA_HOME or in /usr/local/cuda)")
  endif()
endif()
