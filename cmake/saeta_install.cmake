# What is installed: the libraries, headers and CMake configuration for find_package(saeta), in a wheel together with the modules
# of the Python package. What links libarrow lies in a folder for each major release of pyarrow.

include_guard(GLOBAL)
include(CMakePackageConfigHelpers)

# saeta_runpath(<target>... [PATHS folder...]): where the loader looks for what the targets need, in the build tree as when
# installed: CMake's own paths of a build tree end with an empty entry, which is the current directory of whoever runs them.
# libsaeta needs nothing of ours and gets no path: it loads the driver by its name, which only the loader's own path may find.
function(saeta_runpath)
  cmake_parse_arguments(PARSE_ARGV 0 runpath "" "" "PATHS")
  set_target_properties(${runpath_UNPARSED_ARGUMENTS} PROPERTIES INSTALL_RPATH "${runpath_PATHS}" BUILD_WITH_INSTALL_RPATH ON)
endfunction()

saeta_runpath(saeta)
set(libraries saeta)
foreach(major IN LISTS SAETA_PYARROW_MAJORS)
  cmake_path(GET SAETA_ARROW_LIBRARY_${major} PARENT_PATH pyarrow)
  if(DEFINED SKBUILD)
    # pyarrow lies beside the package; Python imports it first, and the loader finds it by this path otherwise.
    set(pyarrow "$ORIGIN/../../pyarrow")
  endif()
  saeta_runpath(saeta_bridge_${major} PATHS "$ORIGIN" "$ORIGIN/.." "${pyarrow}")
  set_target_properties(saeta_bridge_${major} PROPERTIES EXPORT_NAME bridge)
  list(APPEND libraries saeta_bridge_${major})
  install(TARGETS saeta_bridge_${major} EXPORT saeta_pyarrow${major}
          DESTINATION "${CMAKE_INSTALL_LIBDIR}/_pyarrow${major}")
  install(EXPORT saeta_pyarrow${major} NAMESPACE saeta:: DESTINATION "${saeta_config_dir}")
endforeach()

if(DEFINED SKBUILD)
  set(modules _core _ipc)
  saeta_runpath(${modules} PATHS "$ORIGIN")
  if(SAETA_WITH_RMM)
    list(APPEND modules _rmm)
    # RMM's packages lie beside this one; Python imports them first, and the loader finds them by these paths otherwise.
    saeta_runpath(_rmm PATHS "$ORIGIN" "$ORIGIN/../librmm/lib64" "$ORIGIN/../rapids_logger/lib64")
  endif()
  get_property(stubs GLOBAL PROPERTY saeta_stubs)
  install(TARGETS ${modules} DESTINATION saeta)
  install(FILES ${stubs} DESTINATION saeta)
  foreach(major IN LISTS SAETA_PYARROW_MAJORS)
    get_property(classes GLOBAL PROPERTY saeta_classes_${major})
    set(modules _bridge_${major} ${classes})
    saeta_runpath(${modules} PATHS "$ORIGIN" "$ORIGIN/.." "$ORIGIN/../../pyarrow")
    install(TARGETS ${modules} DESTINATION "saeta/_pyarrow${major}")
  endforeach()
else()
  # A wheel can't hold the links between these names.
  set_target_properties(${libraries} PROPERTIES
    VERSION "${PROJECT_VERSION}" SOVERSION "${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}")
endif()

install(TARGETS saeta EXPORT saeta DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT saeta FILE saetaTargets.cmake NAMESPACE saeta:: DESTINATION "${saeta_config_dir}")
get_property(public_headers GLOBAL PROPERTY saeta_public_headers)
foreach(header IN LISTS public_headers)
  cmake_path(GET header PARENT_PATH folder)
  cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
  install(FILES "${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/${folder}")
endforeach()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/saeta/rmm" "${PROJECT_SOURCE_DIR}/saeta/rapidsmpf"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/saeta"
        FILES_MATCHING PATTERN "*.hpp")
install(FILES "${PROJECT_BINARY_DIR}/generated/saeta/base/version.hpp"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/saeta/base")

# The configuration names libarrow by its files alone, newest first: where one lies is told by the libraries that need it.
set(saeta_arrow_names)
foreach(major IN LISTS SAETA_PYARROW_MAJORS)
  cmake_path(GET SAETA_ARROW_LIBRARY_${major} FILENAME name)
  list(APPEND saeta_arrow_names "${name}")
endforeach()
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/saetaConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/saetaConfig.cmake" INSTALL_DESTINATION "${saeta_config_dir}"
                              PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/saetaConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/saetaConfig.cmake" "${PROJECT_BINARY_DIR}/saetaConfigVersion.cmake"
        DESTINATION "${saeta_config_dir}")
