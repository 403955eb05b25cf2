# saeta_layer(<folder> [PYARROW] [PUBLIC header...] [LIBRARIES target...] [DEFINITIONS name=value...])
#
# Declares the layer whose sources lie in the folder and below, headers and sources side by side, as the target saeta_<folder>
# (backend/host: saeta_backend_host): objects for libsaeta. With PYARROW they are a library of their own that links libarrow, and
# there is one for each major release M of pyarrow, saeta_<folder>_M; saeta_<folder> and saeta::<folder> are that of the newest. PUBLIC headers are installed, and other layers may include them; all others are the
# layer's own. LIBRARIES names what others wrote.

include_guard(GLOBAL)

function(saeta_layer folder)
  cmake_parse_arguments(PARSE_ARGV 1 layer "PYARROW" "" "PUBLIC;LIBRARIES;DEFINITIONS")
  list(TRANSFORM layer_PUBLIC PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/")
  set_property(GLOBAL APPEND PROPERTY saeta_public_headers ${layer_PUBLIC})
  string(REPLACE "/" "_" name "${folder}")
  set(target "saeta_${name}")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cpp"
       "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cu")
  if(NOT sources)
    add_library(${target} INTERFACE)
    return()
  endif()

  if(layer_PYARROW)
    list(GET SAETA_PYARROW_MAJORS 0 newest)
    foreach(major IN LISTS SAETA_PYARROW_MAJORS)
      set(objects ${target}_objects_${major})
      add_library(${objects} OBJECT ${sources})
      saeta_precompile(${objects})
      saeta_complete_layer(${objects})
      target_link_libraries(${objects} PRIVATE saeta_arrow_${major} ${layer_LIBRARIES})
      add_library(${target}_${major} $<TARGET_OBJECTS:${objects}>)
      set_target_properties(${target}_${major} PROPERTIES OUTPUT_NAME ${target})
      if(DEFINED SKBUILD OR NOT major STREQUAL newest) # where it is installed: beside libsaeta there is room for one
        set_target_properties(${target}_${major} PROPERTIES
          LIBRARY_OUTPUT_DIRECTORY "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/_pyarrow${major}")
      endif()
      saeta_exports(${target}_${major})
      target_link_libraries(${target}_${major} PUBLIC saeta PRIVATE "$<BUILD_INTERFACE:saeta_arrow_${major};${layer_LIBRARIES}>")
    endforeach()
    add_library(${target}_objects ALIAS ${target}_objects_${newest})
    add_library(${target} ALIAS ${target}_${newest})
    add_library(saeta::${name} ALIAS ${target}_${newest})
    return()
  endif()

  add_library(${target} OBJECT ${sources})
  set_property(GLOBAL APPEND PROPERTY saeta_layers ${target})
  list(FILTER sources INCLUDE REGEX "\\.cu$") # CMake compiles them one by one until 3.31; each has a table of that name
  set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  # Compiled once for all layers. make lint compiles each file without it, which shows that the file includes what it uses.
  if(TARGET saeta_base AND NOT layer_DEFINITIONS AND NOT name STREQUAL "base")
    target_precompile_headers(${target} REUSE_FROM saeta_base)
    saeta_cacheable(${target})
  else()
    saeta_precompile(${target})
  endif()
  saeta_complete_layer(${target})
  target_compile_definitions(${target} PRIVATE ${layer_DEFINITIONS})
  target_link_libraries(${target} PRIVATE ${layer_LIBRARIES})
endfunction()

# saeta_exports(<target>): of what the compiler leaves visible, the library exports what saeta/exports.map.in lists.
function(saeta_exports target)
  set(map "${PROJECT_BINARY_DIR}/generated/exports.map")
  configure_file("${PROJECT_SOURCE_DIR}/saeta/exports.map.in" "${map}" @ONLY)
  target_link_options(${target} PRIVATE "LINKER:--version-script=${map}")
  set_target_properties(${target} PROPERTIES LINK_DEPENDS "${map}")
endfunction()

# What the targets of all layers have in common.
function(saeta_complete_layer target)
  target_include_directories(${target} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>" "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>")
  # clang takes the visibility of a function from the namespace around its definition, where g++ takes it from the first
  # declaration: hidden by default, no function of a header would leave the library. It exports private names as well.
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden
                          VISIBILITY_INLINES_HIDDEN ON)
  endif()
  # Functions of ours are not replaced from outside: calls among them may be inlined, and go directly where they are not.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fno-semantic-interposition>")
  target_link_libraries(${target} PRIVATE "$<BUILD_INTERFACE:saeta_warnings>")
endfunction()
