# RMM, for the adaptor in saeta/rmm: saeta_rmm (saeta::rmm), headers that need RMM's headers and librmm.
#
# RMM is taken from SAETA_RMM_ROOT, else from the package librmm of the chosen Python, else from where CMake looks. RMM's own
# config file is not used: it asks for CMake 4.

include_guard(GLOBAL)

set(SAETA_RMM_ROOT "" CACHE PATH "Folder of RMM, with include/rmm and lib or lib64; looked for when empty")
set(saeta_rmm_oldest 26.10)
# Names a library to the loader whether a symbol of it is used or not: libraries of RAPIDS find each other only so.
set(CMAKE_LINK_LIBRARY_USING_saeta_needed LINKER:--push-state,--no-as-needed <LINK_ITEM> LINKER:--pop-state CACHE INTERNAL "")
set(CMAKE_LINK_LIBRARY_USING_saeta_needed_SUPPORTED TRUE CACHE INTERNAL "")

# Sets saeta_rmm_missing to what is not there, or to nothing and saeta_rmm_version.
function(saeta_find_rmm)
  # Beside librmm lies what it logs with.
  set(roots "${SAETA_RMM_ROOT}" "${SAETA_RMM_ROOT}/../rapids_logger")
  if(NOT SAETA_RMM_ROOT)
    saeta_python_value(roots "import os, importlib.util as u; print(*(os.path.dirname(u.find_spec(n).origin) for n in ('librmm', 'rapids_logger')), sep=';')")
  endif()
  find_path(saeta_rmm_include rmm/version_config.hpp HINTS ${roots} PATH_SUFFIXES include NO_CACHE)
  find_path(saeta_rmm_cccl cuda/memory_resource HINTS "${saeta_rmm_include}/rapids" NO_DEFAULT_PATH NO_CACHE)
  find_path(saeta_rmm_logger_include rapids_logger/log_levels.h HINTS ${roots} PATH_SUFFIXES include NO_CACHE)
  find_library(saeta_rmm_library rmm HINTS ${roots} PATH_SUFFIXES lib64 lib NO_CACHE)
  find_library(saeta_rmm_logger rapids_logger HINTS ${roots} PATH_SUFFIXES lib64 lib NO_CACHE)
  find_package(CUDAToolkit QUIET)

  set(saeta_rmm_missing "" PARENT_SCOPE)
  set(version 0)
  if(saeta_rmm_include)
    file(STRINGS "${saeta_rmm_include}/rmm/version_config.hpp" lines REGEX "define RMM_VERSION_(MAJOR|MINOR) +[0-9]+")
    string(REGEX REPLACE "[^0-9]+([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2" version "${lines}")
  endif()
  if(NOT saeta_rmm_include OR NOT saeta_rmm_library OR NOT saeta_rmm_logger OR NOT saeta_rmm_logger_include)
    set(saeta_rmm_missing "no RMM was found (pip install librmm-cu13, or set SAETA_RMM_ROOT)" PARENT_SCOPE)
  elseif(version VERSION_LESS saeta_rmm_oldest)
    set(saeta_rmm_missing "RMM ${version} in ${saeta_rmm_include} is older than ${saeta_rmm_oldest}" PARENT_SCOPE)
  elseif(NOT saeta_rmm_cccl)
    set(saeta_rmm_missing "RMM ${version} in ${saeta_rmm_include} came without its CCCL headers" PARENT_SCOPE)
  elseif(NOT CUDAToolkit_FOUND)
    set(saeta_rmm_missing "RMM's headers need those of a CUDA toolkit, and none was found" PARENT_SCOPE)
  else()
    set(saeta_rmm_version "${version}" PARENT_SCOPE)
    add_library(saeta_librmm INTERFACE)
    target_include_directories(saeta_librmm SYSTEM INTERFACE "${saeta_rmm_cccl}" "${saeta_rmm_include}"
                               "${saeta_rmm_logger_include}")
    target_link_libraries(saeta_librmm INTERFACE "$<LINK_LIBRARY:saeta_needed,${saeta_rmm_library}>"
                          "$<LINK_LIBRARY:saeta_needed,${saeta_rmm_logger}>" CUDA::cudart_static)
    target_compile_definitions(saeta_librmm INTERFACE CCCL_DISABLE_PDL)
  endif()
endfunction()

saeta_feature_wanted(RMM wanted)
if(wanted)
  if(SAETA_SANITIZE MATCHES "thread")
    set(saeta_rmm_missing "ThreadSanitizer can't follow the fences in RMM's headers")
  else()
    saeta_find_rmm()
  endif()
  if(saeta_rmm_missing)
    saeta_feature_missing(RMM "${saeta_rmm_missing}")
  else()
    saeta_feature_found(RMM "RMM ${saeta_rmm_version}")
  endif()
endif()
