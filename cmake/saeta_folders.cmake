# Where things lie, and where they are installed. A wheel, which scikit-build-core builds, has everything below saeta/, libraries beside the modules.

include_guard(GLOBAL)
include(GNUInstallDirs)

set(SAETA_DEPS_DIR "${PROJECT_SOURCE_DIR}/.deps" CACHE PATH "Folder that holds what the set-up fetched")

if(DEFINED SKBUILD)
  set(CMAKE_INSTALL_LIBDIR saeta)
  set(CMAKE_INSTALL_INCLUDEDIR saeta/include)
  set(saeta_config_dir saeta/cmake)
  set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME python)
else()
  set(saeta_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/saeta")
endif()
