# An overlay port, which builds the tree that it lies in: vcpkg install saeta --overlay-ports=packaging/vcpkg
# What others wrote and Saeta compiles lies in .deps/ of the tree: make setup fetches it, and the source distribution has it.

get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)
foreach(file IN ITEMS nanoarrow/nanoarrow.c dlpack/dlpack.h lz4/lz4.h zstd/zstd.h)
  if(NOT EXISTS "${SOURCE_PATH}/.deps/${file}")
    message(FATAL_ERROR "${SOURCE_PATH}/.deps lacks ${file}: run scripts/fetch_sources.py there")
  endif()
endforeach()

vcpkg_check_features(OUT_FEATURE_OPTIONS options FEATURES cuda SAETA_CUDA)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${options} -DSAETA_BRIDGE=OFF -DSAETA_PYTHON=OFF -DSAETA_RMM=OFF -DSAETA_RAPIDSMPF=OFF
          -DSAETA_TESTS=OFF -DSAETA_BENCH=OFF -DSAETA_EXAMPLES=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/saeta)
vcpkg_fixup_pkgconfig()

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share"
                    "${CURRENT_PACKAGES_DIR}/share/doc")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE" "${SOURCE_PATH}/NOTICE")
