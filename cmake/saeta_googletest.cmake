# GoogleTest: the system's package, or built from the sources that distributions install below /usr/src.

include_guard(GLOBAL)

find_package(GTest QUIET)
if(TARGET GTest::gmock_main)
  saeta_feature_found(TESTS "GoogleTest ${GTest_VERSION}")
  return()
endif()

file(GLOB folders LIST_DIRECTORIES TRUE "/usr/src/*")
find_path(SAETA_GOOGLETEST_DIR googlemock/CMakeLists.txt PATHS ${folders} NO_DEFAULT_PATH)
mark_as_advanced(SAETA_GOOGLETEST_DIR)
if(NOT SAETA_GOOGLETEST_DIR)
  saeta_feature_missing(TESTS "no GoogleTest was found (apt-get install libgtest-dev libgmock-dev)")
  return()
endif()

block(SCOPE_FOR VARIABLES)
  set(INSTALL_GTEST OFF)
  set(CMAKE_COMPILE_WARNING_AS_ERROR OFF)
  set(CMAKE_POLICY_VERSION_MINIMUM 3.5)
  add_subdirectory("${SAETA_GOOGLETEST_DIR}" "${PROJECT_BINARY_DIR}/googletest" EXCLUDE_FROM_ALL SYSTEM)
endblock()
saeta_feature_found(TESTS "GoogleTest built from ${SAETA_GOOGLETEST_DIR}")
