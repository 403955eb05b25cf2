# rapidsmpf, for the adaptor in saeta/rapidsmpf: saeta_rapidsmpf (saeta::rapidsmpf), headers that need rapidsmpf's headers and
# librapidsmpf.
#
# It is taken from SAETA_RAPIDSMPF_ROOT, else from the package librapidsmpf of the chosen Python, else from where CMake looks.
# Beside it lie libucxx and libucx, which librapidsmpf is linked with.

include_guard(GLOBAL)

set(SAETA_RAPIDSMPF_ROOT "" CACHE PATH "Folder of rapidsmpf, with include/rapidsmpf and lib or lib64; looked for when empty")
set(saeta_rapidsmpf_release 26.10)

# Sets saeta_rapidsmpf_missing to what is not there, or to nothing.
function(saeta_find_rapidsmpf)
  set(root "${SAETA_RAPIDSMPF_ROOT}")
  set(roots "${root}" "${root}/../libucxx" "${root}/../libucx")
  if(NOT root)
    saeta_python_value(roots "import os, importlib.util as u; print(*(os.path.dirname(u.find_spec(n).origin) for n in ('librapidsmpf', 'libucxx', 'libucx')), sep=';')")
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
  if(NOT SAETA_WITH_RMM)
    set(saeta_rapidsmpf_missing "it needs the adaptor for RMM (SAETA_RMM)" PARENT_SCOPE)
  elseif(NOT saeta_rapidsmpf_include OR NOT saeta_rapidsmpf_ucxx OR NOT saeta_rapidsmpf_ucx OR NOT found EQUAL 3)
    set(saeta_rapidsmpf_missing "no rapidsmpf was found (pip install librapidsmpf-cu13, or set SAETA_RAPIDSMPF_ROOT)"
        PARENT_SCOPE)
  elseif(EXISTS "${root}/VERSION" AND NOT version MATCHES "^${saeta_rapidsmpf_release}\\.")
    set(saeta_rapidsmpf_missing "rapidsmpf in ${root} is ${version}, and the adaptor is written for ${saeta_rapidsmpf_release}"
        PARENT_SCOPE)
  else()
    add_library(saeta_librapidsmpf INTERFACE)
    target_include_directories(saeta_librapidsmpf SYSTEM INTERFACE "${saeta_rapidsmpf_include}" "${saeta_rapidsmpf_ucxx}"
                               "${saeta_rapidsmpf_ucx}")
    target_link_libraries(saeta_librapidsmpf INTERFACE ${libraries} saeta_librmm)
    target_compile_definitions(saeta_librapidsmpf INTERFACE RAPIDSMPF_HAVE_UCXX RAPIDSMPF_HAVE_STREAMING)
  endif()
endfunction()

saeta_feature_wanted(RAPIDSMPF wanted)
if(wanted)
  saeta_find_rapidsmpf()
  if(saeta_rapidsmpf_missing)
    saeta_feature_missing(RAPIDSMPF "${saeta_rapidsmpf_missing}")
  else()
    saeta_feature_found(RAPIDSMPF "rapidsmpf ${saeta_rapidsmpf_release}")
  endif()
endif()
