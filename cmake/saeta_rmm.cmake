# RMM, for the adaptor in saeta/rmm: saeta_rmm (saeta::rmm), headers that need RMM's headers and librmm.
#
# RMM is taken from SAETA_RMM_ROOT, else from the package librmm of the chosen Python, else from where CMake looks.

include_guard(GLOBAL)
include(saeta_find_rapids)

set(SAETA_RMM_ROOT "" CACHE PATH "Folder of RMM, with include/rmm and lib or lib64; looked for when empty")

saeta_feature_wanted(RMM wanted)
if(wanted)
  if(SAETA_SANITIZE MATCHES "thread")
    set(saeta_rmm_missing "ThreadSanitizer can't follow the fences in RMM's headers")
  else()
    saeta_find_rmm(SAETA_RMM_ROOT "${SAETA_PYTHON_EXECUTABLE}")
  endif()
  if(saeta_rmm_missing)
    saeta_feature_missing(RMM "${saeta_rmm_missing}")
  else()
    saeta_feature_found(RMM "RMM ${saeta_rmm_version}")
  endif()
endif()
