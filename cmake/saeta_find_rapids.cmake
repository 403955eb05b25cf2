# RMM and rapidsmpf for the adaptors in saeta/rmm and saeta/rapidsmpf, which are headers: saeta_librmm and saeta_librapidsmpf. The
# build of Saeta includes this file, and so does an installed saetaConfig.cmake.
#
# Config files of RAPIDS are not used: they ask for CMake 4. What is found is a folder with include/ and lib or lib64, or a package
# of a Python, beside which lie the packages that it needs.

set(saeta_rmm_oldest 26.10)
set(saeta_rapidsmpf_release 26.10)
# Names a library to the loader whether a symbol of it is used or not: libraries of RAPIDS find each other only so.
set(CMAKE_LINK_LIBRARY_USING_saeta_needed LINKER:--push-state,--no-as-needed <LINK_ITEM> LINKER:--pop-state CACHE INTERNAL "")
set(CMAKE_LINK_LIBRARY_USING_saeta_needed_SUPPORTED TRUE CACHE INTERNAL "")

# saeta_package_folders(<variable> <Python> <package>...): where the packages lie, empty if one is missing.
function(saeta_package_folders variable python)
  set(found "")
  if(python)
    list(JOIN ARGN "', '" names)
    execute_process(COMMAND "${python}" -c "import os, importlib.util as u; print(*(os.path.dirname(u.find_spec(n).origin) for n in ('${names}',)), sep=';')"
                    OUTPUT_VARIABLE found ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  set(${variable} "${found}" PARENT_SCOPE)
endfunction()

# saeta_find_rmm(<variable with the folder of RMM, or empty> <Python or empty>): sets saeta_rmm_missing to what is not there, or to
# nothing and saeta_rmm_version.
function(saeta_find_rmm root_name python)
  set(root "${${root_name}}")
  set(roots "${root}" "${root}/../rapids_logger") # beside librmm lies what it logs with
  if(NOT root)
    saeta_package_folders(roots "${python}" librmm rapids_logger)
  endif()
  find_path(saeta_rmm_include rmm/version_config.hpp HINTS ${roots} PATH_SUFFIXES include NO_CACHE)
  find_path(saeta_rmm_cccl cuda/memory_resource HINTS "${saeta_rmm_include}/rapids" NO_DEFAULT_PATH NO_CACHE)
  find_path(saeta_rmm_logger_include rapids_logger/log_levels.h HINTS ${roots} PATH_SUFFIXES include NO_CACHE)
  find_library(saeta_rmm_library rmm HINTS ${roots} PATH_SUFFIXES lib64 lib NO_CACHE)
  find_library(saeta_rmm_logger rapids_logger HINTS ${roots} PATH_SUFFIXES lib64 lib NO_CACHE)

  set(saeta_rmm_missing "" PARENT_SCOPE)
  set(version 0)
  if(saeta_rmm_include)
    file(STRINGS "${saeta_rmm_include}/rmm/version_config.hpp" lines REGEX "define RMM_VERSION_(MAJOR|MINOR) +[0-9]+")
    string(REGEX REPLACE "[^0-9]+([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2" version "${lines}")
  endif()
  if(NOT saeta_rmm_include OR NOT saeta_rmm_library OR NOT saeta_rmm_logger OR NOT saeta_rmm_logger_include)
    set(saeta_rmm_missing "no RMM was found (pip install librmm-cu13, or set ${root_name})" PARENT_SCOPE)
  elseif(version VERSION_LESS saeta_rmm_oldest)
    set(saeta_rmm_missing "RMM ${version} in ${saeta_rmm_include} is older than ${saeta_rmm_oldest}" PARENT_SCOPE)
  elseif(NOT saeta_rmm_cccl)
    set(saeta_rmm_missing "RMM ${version} in ${saeta_rmm_include} came without its CCCL headers" PARENT_SCOPE)
  else()
    find_package(CUDAToolkit QUIET)
    if(NOT CUDAToolkit_FOUND)
      set(saeta_rmm_missing "RMM's headers need those of a CUDA toolkit, and none was found" PARENT_SCOPE)
      return()
    endif()
    set(saeta_rmm_version "${version}" PARENT_SCOPE)
    add_library(saeta_librmm INTERFACE IMPORTED)
    target_include_directories(saeta_librmm SYSTEM INTERFACE "${saeta_rmm_cccl}" "${saeta_rmm_include}"
                               "${saeta_rmm_logger_include}")
    target_link_libraries(saeta_librmm INTERFACE "$<LINK_LIBRARY:saeta_needed,${saeta_rmm_library}>"
                          "$<LINK_LIBRARY:saeta_needed,${saeta_rmm_logger}>" CUDA::cudart_static)
    target_compile_definitions(saeta_librmm INTERFACE CCCL_DISABLE_PDL)
  endif()
endfunction()

# saeta_find_rapidsmpf(<variable with the folder of rapidsmpf, or empty> <Python or empty>): sets saeta_rapidsmpf_missing to what is
# not there, or to nothing. It needs saeta_librmm.
function(saeta_find_rapidsmpf root_name python)
  set(root "${${root_name}}")
  set(roots "${root}" "${root}/../libucxx" "${root}/../libucx")
  if(NOT root)
    saeta_package_folders(roots "${python}" librapidsmpf libucxx libucx)
    if(roots)
      list(GET roots 0 root)
    endif()
  endif()
  find_path(saeta_rapidsmpf_include rapidsmpf/memory/packed_data.hpp HINTS ${roots} PATH_SUFFIXES include NO_CACHE)
  find_path(saeta_rapidsmpf_ucxx ucxx/api.h HINTS ${roots} PATH_SUFFIXES include NO_CACHE)
  find_path(saeta_rapidsmpf_ucx ucp/api/ucp.h HINTS ${roots} PATH_SUFFIXES include NO_CACHE)
  set(libraries)
  foreach(name IN ITEMS ucp ucxx rapidsmpf)
    find_library(saeta_rapidsmpf_library_${name} ${name} HINTS ${roots} PATH_SUFFIXES lib64 lib NO_CACHE)
    if(saeta_rapidsmpf_library_${name})
      list(APPEND libraries "$<LINK_LIBRARY:saeta_needed,${saeta_rapidsmpf_library_${name}}>")
    endif()
  endforeach()
  list(LENGTH libraries found)

  set(saeta_rapidsmpf_missing "" PARENT_SCOPE)
  set(version 0)
  if(EXISTS "${root}/VERSION")
    file(STRINGS "${root}/VERSION" version LIMIT_COUNT 1)
  endif()
  if(NOT saeta_rapidsmpf_include OR NOT saeta_rapidsmpf_ucxx OR NOT saeta_rapidsmpf_ucx OR NOT found EQUAL 3)
    set(saeta_rapidsmpf_missing "no rapidsmpf was found (pip install librapidsmpf-cu13, or set ${root_name})" PARENT_SCOPE)
  elseif(EXISTS "${root}/VERSION" AND NOT version MATCHES "^${saeta_rapidsmpf_release}\\.")
    set(saeta_rapidsmpf_missing "rapidsmpf in ${root} is ${version}, and the adaptor is written for ${saeta_rapidsmpf_release}"
        PARENT_SCOPE)
  else()
    add_library(saeta_librapidsmpf INTERFACE IMPORTED)
    target_include_directories(saeta_librapidsmpf SYSTEM INTERFACE "${saeta_rapidsmpf_include}" "${saeta_rapidsmpf_ucxx}"
                               "${saeta_rapidsmpf_ucx}")
    target_link_libraries(saeta_librapidsmpf INTERFACE ${libraries} saeta_librmm)
    target_compile_definitions(saeta_librapidsmpf INTERFACE RAPIDSMPF_HAVE_UCXX RAPIDSMPF_HAVE_STREAMING)
  endif()
endfunction()
