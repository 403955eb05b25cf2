# An overlay port, which builds the tree that it lies in: vcpkg install saeta --overlay-ports=packaging/vcpkg
# The sources of nanoarrow and DLPack are in .deps/ of the tree: make setup, or the source distribution, which has them.

cmake_path(SET SOURCE_PATH NORMALIZE "${CURRENT_PORT_DIR}/../../..")
if(NOT EXISTS "${SOURCE_PATH}/.deps/nanoarrow/nanoarrow.c" OR NOT EXISTS "${SOURCE_PATH}/.deps/dlpack/dlpack.h")
  message(FATAL_ERROR "${SOURCE_PATH}/.deps lacks nanoarrow and dlpack.h: run scripts/fetch_sources.py there")
endif()

vcpkg_check_features(OUT_FEATURE_OPTIONS options FEATURES cuda SAETA_CUDA)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${options} -DSAETA_SYSTEM_CODECS=ON -DSAETA_BRIDGE=OFF -DSAETA_PYTHON=OFF -DSAETA_RMM=OFF -DSAETA_RAPIDSMPF=OFF
          -DSAETA_TESTS=OFF -DSAETA_BENCH=OFF -DSAETA_EXAMPLES=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/saeta)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share"
                    "${CURRENT_PACKAGES_DIR}/share/doc")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE" "${SOURCE_PATH}/NOTICE")
