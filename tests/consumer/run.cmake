# Installs a build, moves the installation, builds the consumer projects and the examples against it, and runs them.
#
#   cmake -DBUILD=<build folder> -DGENERATOR=<generator> -DCXX=<compiler> -DCUDACXX=<compiler or empty>
#         [-DPYTHON=<Python with the packages of components>] [-DSAETA_DIR=<folder>] [-DSTATIC=ON] [-DSMALL=ON] -P run.cmake
#
# SAETA_DIR   folder of an installed saetaConfig.cmake, such as the one in a wheel: used as it is; BUILD is any folder
# STATIC      tries libsaeta.a, which a project that has Saeta within it builds
# SMALL       only the programs of the consumer project

set(source "${CMAKE_CURRENT_LIST_DIR}/../..")
cmake_path(NORMAL_PATH source)
string(REGEX REPLACE "/$" "" source "${source}")
set(work "${BUILD}/consumer")
if(STATIC)
  string(APPEND work "_static")
endif()
set(prefix "${work}/moved")
if(CUDACXX)
  set(ENV{CUDACXX} "${CUDACXX}")
endif()

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# build(<source folder> <name> option...): not optimised, and without debug information, as programs are only linked and run.
function(build project name)
  run("${CMAKE_COMMAND}" -S "${project}" -B "${work}/${name}" -G "${GENERATOR}" -DCMAKE_BUILD_TYPE=Release
      "-DCMAKE_CXX_FLAGS_RELEASE=-O0 -DNDEBUG"
      "-DCMAKE_CXX_COMPILER=${CXX}" "-Dsaeta_DIR=${SAETA_DIR}" "-Dsaeta_PYTHON=${PYTHON}" ${ARGN})
  run("${CMAKE_COMMAND}" --build "${work}/${name}")
endfunction()

# No file names a folder of this machine, and libraries are found beside each other.
function(check_prefix)
  execute_process(COMMAND grep --recursive -I --files-with-matches --fixed-strings "${source}/" "${prefix}"
                  OUTPUT_VARIABLE found RESULT_VARIABLE result)
  if(NOT result EQUAL 1)
    message(FATAL_ERROR "these hold the path ${source}: ${found}")
  endif()
  file(GLOB_RECURSE libraries "${prefix}/*.so")
  foreach(file IN LISTS libraries)
    file(READ_ELF "${file}" RPATH rpath RUNPATH runpath CAPTURE_ERROR error)
    if(error OR rpath OR NOT "${runpath}" MATCHES "^(\\$ORIGIN)?$")
      message(FATAL_ERROR "the run path of ${file} is ${rpath}${runpath}, expected none or $ORIGIN ${error}")
    endif()
  endforeach()
endfunction()

# pkg-config finds the same installation.
function(try_pkg_config)
  find_program(pkg_config pkg-config)
  if(NOT pkg_config)
    return()
  endif()
  file(GLOB_RECURSE pc "${prefix}/saeta.pc")
  cmake_path(GET pc PARENT_PATH folder)
  set(ENV{PKG_CONFIG_PATH} "${folder}")
  execute_process(COMMAND "${pkg_config}" --cflags --libs saeta OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run("${CXX}" -std=c++20 -o "${work}/with_pkg_config" "${CMAKE_CURRENT_LIST_DIR}/minimal.cpp" ${flags})
  cmake_path(GET folder PARENT_PATH folder)
  run("${CMAKE_COMMAND}" -E env "LD_LIBRARY_PATH=${folder}" "${work}/with_pkg_config")
endfunction()

# take_programs(<page> <folder>): writes the page's blocks of C++, which are whole programs, as files named after the page.
function(take_programs page folder)
  cmake_path(GET page STEM name)
  file(READ "${page}" text)
  set(number 0)
  while(text MATCHES "(<!-- not run[^\n]*\n)?```cpp\n([^`]*)```")
    set(block "${CMAKE_MATCH_0}")
    set(code "${CMAKE_MATCH_2}")
    if(NOT CMAKE_MATCH_1)
      math(EXPR number "${number} + 1")
      file(WRITE "${folder}/${name}_${number}.cpp" "${code}")
    endif()
    string(FIND "${text}" "${block}" begin)
    string(LENGTH "${block}" length)
    math(EXPR end "${begin} + ${length}")
    string(SUBSTRING "${text}" ${end} -1 text)
  endwhile()
endfunction()

# Programs of the guide, which run from where they are installed.
function(try_guide)
  file(COPY "${CMAKE_CURRENT_LIST_DIR}/guide" DESTINATION "${work}/source")
  file(GLOB pages "${source}/docs/guides/cpp*.md")
  foreach(page IN LISTS pages)
    take_programs("${page}" "${work}/source/guide")
  endforeach()
  build("${work}/source/guide" guide -DCMAKE_INSTALL_RPATH_USE_LINK_PATH=ON)
  run("${CMAKE_COMMAND}" --install "${work}/guide" --prefix "${work}/programs")
  file(GLOB programs "${work}/programs/bin/*")
  foreach(program IN LISTS programs)
    execute_process(COMMAND "${program}" WORKING_DIRECTORY "${work}/output" COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
endfunction()

file(REMOVE_RECURSE "${prefix}" "${work}/source" "${work}/programs" "${work}/output")
file(MAKE_DIRECTORY "${work}/output")
if(STATIC)
  # Kept between runs, as it compiles the library.
  build("${CMAKE_CURRENT_LIST_DIR}/subproject" subproject "-DSAETA_SOURCE=${source}" "-DSAETA_PYTHON_EXECUTABLE=${PYTHON}")
  run("${work}/subproject/minimal")
  run("${CMAKE_COMMAND}" --install "${work}/subproject" --prefix "${work}/install")
elseif(NOT SAETA_DIR)
  run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${work}/install")
endif()
if(NOT SAETA_DIR)
  file(RENAME "${work}/install" "${prefix}")
  check_prefix()
  file(GLOB_RECURSE SAETA_DIR "${prefix}/saetaConfig.cmake")
  cmake_path(GET SAETA_DIR PARENT_PATH SAETA_DIR)
  try_pkg_config()
endif()

build("${CMAKE_CURRENT_LIST_DIR}" minimal)
run("${work}/minimal/minimal")
run("${work}/minimal/device_array")
if(SMALL)
  return()
endif()
try_guide()
if(STATIC)
  return()
endif()

build("${CMAKE_CURRENT_LIST_DIR}/../../examples" examples)
set(ENV{TMPDIR} "${work}/output")
run("${work}/examples/trip")

# The README's program is only built: the file that it reads is written by the Python blocks.
file(COPY "${CMAKE_CURRENT_LIST_DIR}/readme" DESTINATION "${work}/source")
take_programs("${source}/README.md" "${work}/source/readme")
build("${work}/source/readme" readme)
