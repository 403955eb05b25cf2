# saeta_layer(<name> [SHARED] [PUBLIC header...] [DEPENDS layer...] [LIBRARIES target...] [DEFINITIONS name=value...])
#
# Declares the layer whose sources lie in the current folder and below, headers and sources side by side, as the target
# saeta_<name>: objects for libsaeta, or with SHARED a library of its own. PUBLIC headers are installed, and other layers may
# include them; all others are the layer's own. DEPENDS names the layers it may include, LIBRARIES what others wrote. scripts/lint_structure.py checks the includes against the order of the layers.

include_guard(GLOBAL)

function(saeta_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 layer "SHARED" "" "PUBLIC;DEPENDS;LIBRARIES;DEFINITIONS")
  list(TRANSFORM layer_PUBLIC PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  set_property(GLOBAL APPEND PROPERTY saeta_public_headers ${layer_PUBLIC})
  set(target "saeta_${name}")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp" "${CMAKE_CURRENT_SOURCE_DIR}/*.cu")
  if(NOT sources)
    add_library(${target} INTERFACE)
    return()
  endif()

  if(layer_SHARED)
    add_library(${target} SHARED ${sources})
  else()
    add_library(${target} OBJECT ${sources})
    set_property(GLOBAL APPEND PROPERTY saeta_layers ${target})
  endif()
  list(FILTER sources INCLUDE REGEX "\\.cu$") # CMake compiles them one by one until 3.31; each has a table of that name
  set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_include_directories(${target} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>" "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>")
  target_compile_definitions(${target} PRIVATE ${layer_DEFINITIONS})
  # Compiled once for all layers. make lint compiles each file without it, which shows that the file includes what it uses.
  if(TARGET saeta_base AND NOT layer_SHARED AND NOT layer_DEFINITIONS AND NOT name STREQUAL "base")
    target_precompile_headers(${target} REUSE_FROM saeta_base)
    saeta_cacheable(${target})
  else()
    saeta_precompile(${target})
  endif()
  # Functions of ours are not replaced from outside: calls among them may be inlined, and go directly where they are not.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fno-semantic-interposition>")
  target_link_libraries(${target} PRIVATE "$<BUILD_INTERFACE:saeta_warnings>" ${layer_LIBRARIES})
  foreach(other IN LISTS layer_DEPENDS)
    if(NOT TARGET saeta_${other})
      message(FATAL_ERROR "Layer ${name} depends on ${other}, which is not declared before it")
    endif()
  endforeach()
endfunction()
