# Two kinds of install: what a wheel holds (built through scikit-build-core), and a tree for find_package(saeta).

include_guard(GLOBAL)
include(CMakePackageConfigHelpers)

set(saeta_libraries saeta)
if(SAETA_WITH_IPC)
  list(APPEND saeta_libraries saeta_ipc saeta_bridge)
endif()

if(DEFINED SKBUILD)
  set(modules _core)
  set_target_properties(saeta PROPERTIES INSTALL_RPATH "$ORIGIN")
  if(SAETA_WITH_IPC)
    list(APPEND modules _ipc)
    # pyarrow lies beside the package; Python imports it first, and the loader finds it by this path otherwise.
    set_target_properties(saeta_ipc saeta_bridge PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/../pyarrow")
  endif()
  if(SAETA_WITH_BRIDGE)
    list(APPEND modules _bridge _arrow)
    set_target_properties(_bridge _arrow PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/../pyarrow")
  endif()
  if(SAETA_WITH_RMM)
    list(APPEND modules _rmm)
  endif()
  install(TARGETS ${saeta_libraries} ${modules} LIBRARY DESTINATION saeta COMPONENT python)
  return()
endif()

set_target_properties(${saeta_libraries} PROPERTIES
  VERSION "${PROJECT_VERSION}" SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}"
  INSTALL_RPATH "$ORIGIN")
set(ipc_headers_excluded PATTERN ipc EXCLUDE PATTERN bridge EXCLUDE)
if(SAETA_WITH_IPC)
  set_target_properties(saeta_ipc saeta_bridge PROPERTIES INSTALL_RPATH "$ORIGIN;${SAETA_ARROW_LIBRARY_DIR}")
  set_target_properties(saeta_ipc PROPERTIES EXPORT_NAME ipc)
  set_target_properties(saeta_bridge PROPERTIES EXPORT_NAME bridge)
  set(ipc_headers_excluded)
endif()

# The configuration names libarrow by its file alone: where it lies is told by the library.
set(saeta_arrow_name)
if(SAETA_WITH_IPC)
  cmake_path(GET SAETA_ARROW_LIBRARY FILENAME saeta_arrow_name)
endif()
set(saeta_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/saeta")
install(TARGETS ${saeta_libraries} EXPORT saeta)
install(EXPORT saeta FILE saetaTargets.cmake NAMESPACE saeta:: DESTINATION "${saeta_config_dir}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/saeta" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.hpp" PATTERN backend EXCLUDE PATTERN detail EXCLUDE ${ipc_headers_excluded})
install(FILES "${PROJECT_BINARY_DIR}/generated/saeta/base/version.hpp"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/saeta/base")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/saetaConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/saetaConfig.cmake" INSTALL_DESTINATION "${saeta_config_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/saetaConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/saetaConfig.cmake" "${PROJECT_BINARY_DIR}/saetaConfigVersion.cmake"
        DESTINATION "${saeta_config_dir}")
