# Language standard, warnings, sanitizers and output folders, for every target of the project.
#
# saeta_warnings is linked privately by each of our targets; what others wrote is compiled without it.

include_guard(GLOBAL)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT DEFINED BUILD_SHARED_LIBS)
  set(BUILD_SHARED_LIBS ON)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
if(DEFINED SKBUILD) # as in the wheel: modules that look for the library beside them are imported to make their stubs
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/python/saeta")
endif()
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

# ccache caches what is compiled with a precompiled header only when it is told that macros and times in it do not matter.
find_program(SAETA_CCACHE ccache)
mark_as_advanced(SAETA_CCACHE)
foreach(language IN ITEMS C CXX CUDA)
  if(SAETA_CCACHE AND NOT CMAKE_${language}_COMPILER_LAUNCHER)
    set(CMAKE_${language}_COMPILER_LAUNCHER "${SAETA_CCACHE}")
  endif()
  if(CMAKE_${language}_COMPILER_LAUNCHER MATCHES "(^|/)ccache$")
    set(CMAKE_${language}_COMPILER_LAUNCHER
        "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${CMAKE_${language}_COMPILER_LAUNCHER}")
  endif()
endforeach()

set(SAETA_SANITIZE "" CACHE STRING "Sanitizers for the whole build: \"address,undefined\" or \"thread\"")
if(SAETA_SANITIZE)
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${SAETA_SANITIZE};-fno-omit-frame-pointer>"
                      "$<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize-recover=all>")
  add_link_options("-fsanitize=${SAETA_SANITIZE}")
  # g++ 13 takes its own instrumentation for accesses out of bounds.
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-maybe-uninitialized>")
endif()

# No library and no message of an error names a folder of the machine that built it. gcov needs them to find the sources.
if(NOT CMAKE_CXX_FLAGS_DEBUG MATCHES "--coverage")
  foreach(folder IN ITEMS "${SAETA_DEPS_DIR}" "${PROJECT_BINARY_DIR}" "${PROJECT_SOURCE_DIR}") # the last that fits is taken
    add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-ffile-prefix-map=${folder}/=>"
                        "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffile-prefix-map=${folder}/=>")
  endforeach()
endif()

# Most of the time to compile a file goes to what it includes, so a dozen files of a target are compiled as one. make lint compiles
# each by itself. OFF is faster for who changes one file many times.
option(SAETA_UNITY "Compile a dozen sources of a target at a time" ${PROJECT_IS_TOP_LEVEL})
set(CMAKE_UNITY_BUILD ${SAETA_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)

set(saeta_warning_flags -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast)
add_library(saeta_warnings INTERFACE)
if(SAETA_UNITY)
  # What is private to one file is seen by the next, of which these two warn. make lint has them for each file.
  list(APPEND saeta_warning_flags -Wno-shadow -Wno-subobject-linkage)
endif()
target_compile_options(saeta_warnings INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${saeta_warning_flags};-Wpedantic>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>")

# saeta_cacheable(<target>): what is compiled with a precompiled header can be cached by ccache. g++ then names the header in what it
# preprocesses in place of holding it, and the header of clang holds no time.
function(saeta_cacheable target)
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>"
                         "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

# saeta_precompile(<target> <header>...): parses the headers once for all C++ files of the target, with those of the standard
# library that nearly all of them include. Headers of ours are not among them: a change to one would compile everything again.
function(saeta_precompile target)
  saeta_cacheable(${target})
  foreach(header IN ITEMS ${ARGN} <algorithm> <array> <atomic> <cstring> <functional> <limits> <map> <memory> <mutex> <optional>
                          <span> <string> <string_view> <unordered_map> <vector>)
    target_precompile_headers(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${header}>")
  endforeach()
endfunction()
