# Two kinds of install: what a wheel holds (built through scikit-build-core), and a tree for find_package(saeta).

include_guard(GLOBAL)
include(CMakePackageConfigHelpers)

# saeta_runpath(<target>... [PATHS folder...]): where the loader looks for what the targets need, in the build tree as when
# installed: CMake's own paths of a build tree end with an empty entry, which is the current directory of whoever runs them.
# libsaeta needs nothing of ours and gets no path: it loads the driver by its name, which only the loader's own path may find.
function(saeta_runpath)
  cmake_parse_arguments(PARSE_ARGV 0 runpath "" "" "PATHS")
  set_target_properties(${runpath_UNPARSED_ARGUMENTS} PROPERTIES INSTALL_RPATH "${runpath_PATHS}" BUILD_WITH_INSTALL_RPATH ON)
endfunction()

set(saeta_libraries saeta)
if(SAETA_WITH_IPC)
  list(APPEND saeta_libraries saeta_ipc saeta_bridge)
endif()

saeta_runpath(saeta)
if(DEFINED SKBUILD)
  set(modules _core)
  saeta_runpath(_core PATHS "$ORIGIN")
  if(SAETA_WITH_IPC)
    list(APPEND modules _ipc)
    saeta_runpath(_ipc PATHS "$ORIGIN")
    # pyarrow lies beside the package; Python imports it first, and the loader finds it by this path otherwise.
    saeta_runpath(saeta_ipc saeta_bridge PATHS "$ORIGIN" "$ORIGIN/../pyarrow")
  endif()
  if(SAETA_WITH_BRIDGE)
    list(APPEND modules _bridge _arrow)
    saeta_runpath(_bridge _arrow PATHS "$ORIGIN" "$ORIGIN/../pyarrow")
  endif()
  if(SAETA_WITH_RMM)
    list(APPEND modules _rmm)
    # RMM's packages lie beside this one; Python imports them first, and the loader finds them by these paths otherwise.
    saeta_runpath(_rmm PATHS "$ORIGIN" "$ORIGIN/../librmm/lib64" "$ORIGIN/../rapids_logger/lib64")
  endif()
  install(TARGETS ${saeta_libraries} ${modules} LIBRARY DESTINATION saeta COMPONENT python)
  return()
endif()

set_target_properties(${saeta_libraries} PROPERTIES
  VERSION "${PROJECT_VERSION}" SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
if(SAETA_WITH_IPC)
  saeta_runpath(saeta_ipc saeta_bridge PATHS "$ORIGIN" "${SAETA_ARROW_LIBRARY_DIR}")
  set_target_properties(saeta_ipc PROPERTIES EXPORT_NAME ipc)
  set_target_properties(saeta_bridge PROPERTIES EXPORT_NAME bridge)
endif()

# The configuration names libarrow by its file alone: where it lies is told by the library.
set(saeta_arrow_name)
if(SAETA_WITH_IPC)
  cmake_path(GET SAETA_ARROW_LIBRARY FILENAME saeta_arrow_name)
endif()
set(saeta_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/saeta")
install(TARGETS ${saeta_libraries} EXPORT saeta)
install(EXPORT saeta FILE saetaTargets.cmake NAMESPACE saeta:: DESTINATION "${saeta_config_dir}")
get_property(public_headers GLOBAL PROPERTY saeta_public_headers)
foreach(header IN LISTS public_headers)
  cmake_path(GET header PARENT_PATH folder)
  cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
  install(FILES "${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/${folder}")
endforeach()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/saeta/rmm" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/saeta"
        FILES_MATCHING PATTERN "*.hpp")
install(FILES "${PROJECT_BINARY_DIR}/generated/saeta/base/version.hpp"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/saeta/base")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/saetaConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/saetaConfig.cmake" INSTALL_DESTINATION "${saeta_config_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/saetaConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/saetaConfig.cmake" "${PROJECT_BINARY_DIR}/saetaConfigVersion.cmake"
        DESTINATION "${saeta_config_dir}")
