# rapidsmpf, for the adaptor in saeta/rapidsmpf: saeta_rapidsmpf (saeta::rapidsmpf), headers that need rapidsmpf's headers and
# librapidsmpf.
#
# It is taken from SAETA_RAPIDSMPF_ROOT, else from the package librapidsmpf of the chosen Python, else from where CMake looks.
# Beside it lie libucxx and libucx, which librapidsmpf is linked with.

include_guard(GLOBAL)

set(SAETA_RAPIDSMPF_ROOT "" CACHE PATH "Folder of rapidsmpf, with include/rapidsmpf and lib or lib64; looked for when empty")

saeta_feature_wanted(RAPIDSMPF wanted)
if(wanted)
  if(SAETA_WITH_RMM)
    saeta_find_rapidsmpf(SAETA_RAPIDSMPF_ROOT "${SAETA_PYTHON_EXECUTABLE}")
  else()
    set(saeta_rapidsmpf_missing "it needs the adaptor for RMM (SAETA_RMM)")
  endif()
  if(saeta_rapidsmpf_missing)
    saeta_feature_missing(RAPIDSMPF "${saeta_rapidsmpf_missing}")
  else()
    saeta_feature_found(RAPIDSMPF "rapidsmpf ${saeta_rapidsmpf_release}")
  endif()
endif()
