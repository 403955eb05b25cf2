# Installs the build into a new folder, builds the consumer project and the examples against it, and runs them. If SAETA_DIR
# is the folder of an installed saetaConfig.cmake, such as the one in a wheel, that installation is used and BUILD is any folder.
#
#   cmake -DBUILD=<build folder> -DGENERATOR=<generator> -DCXX=<compiler> -DCUDACXX=<compiler or empty>
#         [-DARROW_INCLUDE=<folder>] [-DSAETA_DIR=<folder>] -P run.cmake

set(work "${BUILD}/consumer")
file(REMOVE_RECURSE "${work}")
file(MAKE_DIRECTORY "${work}/output")

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# build(<source folder> <name>): builds a project that finds Saeta only by its installation.
function(build source name)
  run("${CMAKE_COMMAND}" -S "${source}" -B "${work}/${name}" -G "${GENERATOR}" -DCMAKE_BUILD_TYPE=Release
      "-DCMAKE_CXX_COMPILER=${CXX}" "-Dsaeta_DIR=${SAETA_DIR}" "-DARROW_INCLUDE=${ARROW_INCLUDE}")
  run("${CMAKE_COMMAND}" --build "${work}/${name}")
endfunction()

if(CUDACXX)
  set(ENV{CUDACXX} "${CUDACXX}")
endif()
if(NOT SAETA_DIR)
  run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${work}/install")
  file(GLOB_RECURSE SAETA_DIR "${work}/install/saetaConfig.cmake")
  cmake_path(GET SAETA_DIR PARENT_PATH SAETA_DIR)
endif()
# The installed files must not contain paths of this machine, because installations are moved to others.
file(GLOB configuration "${SAETA_DIR}/*.cmake")
cmake_path(SET source NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../..")
foreach(file IN LISTS configuration)
  file(READ "${file}" text)
  foreach(path IN ITEMS "${BUILD}" "${source}")
    string(FIND "${text}" "${path}" place)
    if(NOT place EQUAL -1)
      message(FATAL_ERROR "${file} holds ${path}")
    endif()
  endforeach()
endforeach()
file(GLOB_RECURSE libraries "${work}/install/*.so*")
foreach(file IN LISTS libraries)
  file(READ_ELF "${file}" RPATH rpath RUNPATH runpath CAPTURE_ERROR error)
  string(FIND "${rpath};${runpath}" "${BUILD}" place)
  if(error OR NOT place EQUAL -1)
    message(FATAL_ERROR "${file} is loaded with libraries of the build, or can't be read: ${rpath};${runpath} ${error}")
  endif()
endforeach()
build("${CMAKE_CURRENT_LIST_DIR}" minimal)
run("${work}/minimal/minimal")
run("${work}/minimal/device_array")
build("${CMAKE_CURRENT_LIST_DIR}/../../examples" examples)
set(ENV{TMPDIR} "${work}/output")
run("${work}/examples/trip")

# The README's program is only built: the file that it reads is written by the Python blocks.
file(READ "${CMAKE_CURRENT_LIST_DIR}/../../README.md" page)
string(REGEX MATCH "```cpp\n([^`]*)```" block "${page}")
file(MAKE_DIRECTORY "${work}/readme")
file(WRITE "${work}/readme/readme.cpp" "${CMAKE_MATCH_1}")
file(COPY "${CMAKE_CURRENT_LIST_DIR}/readme/CMakeLists.txt" DESTINATION "${work}/readme")
build("${work}/readme" readme_build)
