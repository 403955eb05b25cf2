# Installs a build and compiles every header of the installation alone, with each compiler: tests/consumer/headers.
#
#   cmake -DBUILD=<build folder> -DGENERATOR=<generator> -DCXX=<compiler>[;<compiler>...] -DPYTHON=<Python> -P headers.cmake

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(work "${BUILD}/headers")
file(REMOVE_RECURSE "${work}")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${work}/prefix")
foreach(compiler IN LISTS CXX)
  cmake_path(GET compiler FILENAME name)
  run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/headers" -B "${work}/${name}" -G "${GENERATOR}"
      "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_PREFIX_PATH=${work}/prefix" "-Dsaeta_PYTHON=${PYTHON}")
  run("${CMAKE_COMMAND}" --build "${work}/${name}")
endforeach()
