# The codecs of Arrow IPC: LZ4 (saeta_lz4) and Zstandard (saeta_zstd), compiled from their sources in .deps/ or those of the system.
#
# Compiled, they are inside the library that links them and none of their symbols is visible: libarrow and other libraries of a
# process have releases of their own.

include_guard(GLOBAL)

option(SAETA_SYSTEM_CODECS "Link the system's liblz4 and libzstd instead of compiling their sources" OFF)

# saeta_add_codec(<name> <file>...): the objects saeta_<name> of these files in .deps/<name>.
function(saeta_add_codec name)
  list(TRANSFORM ARGN PREPEND "${SAETA_DEPS_DIR}/${name}/" OUTPUT_VARIABLE sources)
  add_library(saeta_${name} OBJECT ${sources})
  target_include_directories(saeta_${name} SYSTEM PUBLIC "${SAETA_DEPS_DIR}/${name}")
  # As their own build compiles them. In a build without optimisation they have some: nobody steps through them, every test of
  # compressed data would wait, and -O3 would take longest of all to compile.
  target_compile_options(saeta_${name} PRIVATE -w $<IF:$<CONFIG:Debug>,-O1,-O3> -g0 -ffunction-sections -fdata-sections)
  # A quarter of their code is called by nobody, such as the dictionary builder.
  target_link_options(saeta_${name} INTERFACE "LINKER:--gc-sections")
  set_target_properties(saeta_${name} PROPERTIES C_VISIBILITY_PRESET hidden C_STANDARD 11 UNITY_BUILD OFF)
endfunction()

function(saeta_find_codec name header)
  string(TOUPPER "SAETA_${name}" prefix)
  find_path(${prefix}_INCLUDE_DIR ${header})
  find_library(${prefix}_LIBRARY ${name})
  mark_as_advanced(${prefix}_INCLUDE_DIR ${prefix}_LIBRARY)
  if(NOT ${prefix}_INCLUDE_DIR OR NOT ${prefix}_LIBRARY)
    message(FATAL_ERROR "SAETA_SYSTEM_CODECS=ON, but ${header} or lib${name} is not found (apt-get install lib${name}-dev)")
  endif()
  add_library(saeta_${name} INTERFACE)
  target_include_directories(saeta_${name} SYSTEM INTERFACE "${${prefix}_INCLUDE_DIR}")
  target_link_libraries(saeta_${name} INTERFACE "${${prefix}_LIBRARY}")
endfunction()

if(SAETA_SYSTEM_CODECS)
  if(NOT BUILD_SHARED_LIBS)
    message(FATAL_ERROR "libsaeta.a has its codecs inside: SAETA_SYSTEM_CODECS=ON needs BUILD_SHARED_LIBS=ON")
  endif()
  saeta_find_codec(lz4 lz4frame.h)
  saeta_find_codec(zstd zstd.h)
  saeta_note("liblz4 and libzstd of the system: ${SAETA_LZ4_LIBRARY}, ${SAETA_ZSTD_LIBRARY}")
  return()
endif()

saeta_require_sources("the sources of LZ4 and Zstandard" lz4/lz4.h zstd/zstd.h)
# These macros would make functions visible again. Empty, they leave them as C_VISIBILITY_PRESET says.
saeta_add_codec(lz4 lz4.c lz4frame.c lz4hc.c xxhash.c)
target_compile_definitions(saeta_lz4 PRIVATE LZ4LIB_VISIBILITY= LZ4FLIB_VISIBILITY= XXH_NAMESPACE=SAETA_LZ4_)
if(SAETA_SANITIZE MATCHES "undefined") # LZ4F_getFrameInfo adds 0 to a null pointer, and copies no bytes to one
  target_compile_options(saeta_lz4 PRIVATE -fno-sanitize=undefined)
endif()
saeta_add_codec(zstd zstd.c)
target_compile_definitions(saeta_zstd PRIVATE ZSTDLIB_VISIBLE= ZSTDERRORLIB_VISIBLE= ZDICTLIB_VISIBLE=)
