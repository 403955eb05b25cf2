# What is compiled from the sources of others: nanoarrow (saeta_nanoarrow) and the DLPack header (saeta_dlpack).
#
# Both lie in .deps/; where they do not, scripts/fetch_sources.py is asked for them.

include_guard(GLOBAL)

set(saeta_source_files "${SAETA_DEPS_DIR}/nanoarrow/nanoarrow.c" "${SAETA_DEPS_DIR}/nanoarrow/nanoarrow.h"
    "${SAETA_DEPS_DIR}/dlpack/dlpack.h")

foreach(file IN LISTS saeta_source_files)
  if(NOT EXISTS "${file}")
    set(command "${SAETA_PYTHON_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/scripts/fetch_sources.py" "${SAETA_DEPS_DIR}")
    list(JOIN command " " shown)
    message(STATUS "${file} is missing: running ${shown}")
    execute_process(COMMAND ${command} RESULT_VARIABLE result)
    if(NOT result EQUAL 0)
      message(FATAL_ERROR "nanoarrow and dlpack.h are not in ${SAETA_DEPS_DIR}. With a network, run: ${shown}")
    endif()
    break()
  endif()
endforeach()

add_library(saeta_nanoarrow STATIC "${SAETA_DEPS_DIR}/nanoarrow/nanoarrow.c")
target_include_directories(saeta_nanoarrow SYSTEM PUBLIC "${SAETA_DEPS_DIR}/nanoarrow")
target_compile_options(saeta_nanoarrow PRIVATE -w)
set_target_properties(saeta_nanoarrow PROPERTIES C_VISIBILITY_PRESET hidden C_STANDARD 11)

add_library(saeta_dlpack INTERFACE)
target_include_directories(saeta_dlpack SYSTEM INTERFACE "${SAETA_DEPS_DIR}")
