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
    # CMake 3.25 does not know that nvcc has C++20, so CMAKE_CUDA_STANDARD can't ask for it.
    string(APPEND CMAKE_CUDA_FLAGS " -std=c++20")
    find_package(CUDAToolkit REQUIRED)
    list(JOIN CMAKE_CUDA_ARCHITECTURES ", " shown)
    saeta_feature_found(CUDA "toolkit ${CUDAToolkit_VERSION}, architectures ${shown}")
  else()
    saeta_feature_missing(CUDA "no CUDA toolkit was found (nvcc on the PATH, in CUDA_HOME or in /usr/local/cuda)")
  endif()
endif()
