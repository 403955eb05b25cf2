# What is compiled from the sources of others into every build: nanoarrow (saeta_nanoarrow), and the DLPack header, which is copied
# to where saeta/interop/dlpack/abi.hpp includes it. saeta_codecs.cmake has what IPC needs besides.
#
# The sources lie in .deps/; where they do not, scripts/fetch_sources.py is asked for them.

include_guard(GLOBAL)

# saeta_require_sources(<names, for a message> <file in SAETA_DEPS_DIR>...): fetches the sources if one of the files is missing.
function(saeta_require_sources names)
  foreach(file IN LISTS ARGN)
    if(NOT EXISTS "${SAETA_DEPS_DIR}/${file}")
      set(command "${SAETA_PYTHON_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/scripts/fetch_sources.py" "${SAETA_DEPS_DIR}")
      list(JOIN command " " shown)
      message(STATUS "${SAETA_DEPS_DIR}/${file} is missing: running ${shown}")
      execute_process(COMMAND ${command} RESULT_VARIABLE result)
      if(NOT result EQUAL 0)
        message(FATAL_ERROR "${names} are not in ${SAETA_DEPS_DIR}. With a network, run: ${shown}")
      endif()
      break()
    endif()
  endforeach()
endfunction()

saeta_require_sources("nanoarrow and dlpack.h" nanoarrow/nanoarrow.c nanoarrow/nanoarrow.h dlpack/dlpack.h)

add_library(saeta_nanoarrow OBJECT "${SAETA_DEPS_DIR}/nanoarrow/nanoarrow.c")
target_include_directories(saeta_nanoarrow SYSTEM PUBLIC "${SAETA_DEPS_DIR}/nanoarrow")
target_compile_options(saeta_nanoarrow PRIVATE -w)
set_target_properties(saeta_nanoarrow PROPERTIES C_VISIBILITY_PRESET hidden C_STANDARD 11)

add_library(saeta_dlpack INTERFACE)
target_include_directories(saeta_dlpack SYSTEM INTERFACE "${SAETA_DEPS_DIR}")
configure_file("${SAETA_DEPS_DIR}/dlpack/dlpack.h" "${PROJECT_BINARY_DIR}/generated/saeta/interop/dlpack/dlpack.h" COPYONLY)
