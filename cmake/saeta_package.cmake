# Packages by CPack, from a configured build: `cpack -G DEB` and `cpack -G TGZ`. A package has what `make install` installs.

include_guard(GLOBAL)

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME libsaeta-dev)
set(CPACK_PACKAGE_CONTACT "The Saeta developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "GPU columnar data plane: library and headers for C++")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# libarrow is pyarrow's, which is no Debian package: only found, so that it is no error, and not named as a dependency.
foreach(major IN LISTS SAETA_PYARROW_MAJORS)
  cmake_path(GET SAETA_ARROW_LIBRARY_${major} PARENT_PATH folder)
  list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${folder}")
endforeach()
include(CPack)
