# What is installed: the libraries, headers, and files for find_package(saeta) and pkg-config, in a wheel together with the modules
# of the Python package. Nothing names a folder of this machine, so that an installation can be moved.

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
set(saeta_arrow_names)
foreach(major IN LISTS SAETA_PYARROW_MAJORS)
  set(target saeta_bridge_${major})
  set(folder "${CMAKE_INSTALL_LIBDIR}")
  if(DEFINED SKBUILD)
    # pyarrow lies beside the package; Python imports it first, and the loader finds it by this path otherwise.
    set(folder "${CMAKE_INSTALL_LIBDIR}/_pyarrow${major}")
    saeta_runpath(${target} PATHS "$ORIGIN" "$ORIGIN/.." "$ORIGIN/../../pyarrow")
  else()
    saeta_runpath(${target} PATHS "$ORIGIN") # the program brings libarrow
  endif()
  set_target_properties(${target} PROPERTIES EXPORT_NAME bridge)
  list(APPEND libraries ${target})
  install(TARGETS ${target} EXPORT saeta_pyarrow${major} DESTINATION "${folder}")
  install(EXPORT saeta_pyarrow${major} NAMESPACE saeta:: DESTINATION "${saeta_config_dir}")
  # Named by its file alone, newest first: saetaConfig.cmake looks for it.
  cmake_path(GET SAETA_ARROW_LIBRARY_${major} FILENAME name)
  list(APPEND saeta_arrow_names "${name}")
  if(NOT DEFINED SKBUILD)
    break() # the newest
  endif()
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
    VERSION "${PROJECT_VERSION}" SOVERSION "${SAETA_ABI_VERSION}")
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
install(FILES "${PROJECT_SOURCE_DIR}/saeta/saeta.hpp" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/saeta")
install(DIRECTORY "${PROJECT_BINARY_DIR}/generated/saeta" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")

set(saeta_in_package FALSE)
if(DEFINED SKBUILD)
  set(saeta_in_package TRUE)
endif()
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/saetaConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/saetaConfig.cmake" INSTALL_DESTINATION "${saeta_config_dir}"
                              PATH_VARS CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/saetaConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/saetaConfig.cmake" "${PROJECT_BINARY_DIR}/saetaConfigVersion.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/saeta_find_rapids.cmake"
        DESTINATION "${saeta_config_dir}")

if(NOT DEFINED SKBUILD)
  # pkg-config says where saeta.pc lies, unless the folders were given as absolute paths.
  set(saeta_pc_prefix "${CMAKE_INSTALL_PREFIX}")
  set(saeta_pc_libdir "${CMAKE_INSTALL_FULL_LIBDIR}")
  set(saeta_pc_includedir "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
  if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" AND NOT IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    file(RELATIVE_PATH up "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
    string(REGEX REPLACE "/$" "" up "${up}")
    set(saeta_pc_prefix "\${pcfiledir}/${up}")
    set(saeta_pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
    set(saeta_pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
  endif()
  set(saeta_pc_libraries "")
  if(NOT BUILD_SHARED_LIBS)
    get_property(libraries GLOBAL PROPERTY saeta_static_libraries)
    list(JOIN libraries " -l" libraries)
    set(saeta_pc_libraries " -l${libraries}")
  endif()
  configure_file("${PROJECT_SOURCE_DIR}/cmake/saeta.pc.in" "${PROJECT_BINARY_DIR}/saeta.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/saeta.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/NOTICE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
endif()
