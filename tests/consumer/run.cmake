# Installs the build into a fresh tree, configures the consumer project against it, builds it and runs its programs.
#
#   cmake -DBUILD=<build folder> -DGENERATOR=<generator> -DCXX=<compiler> -DCUDAXX=<compiler or empty> -P run.cmake

set(work "${BUILD}/consumer")
file(REMOVE_RECURSE "${work}")
file(MAKE_DIRECTORY "${work}/output")

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${work}/install")
set(cuda)
if(CUDAXX)
  set(cuda "-DCMAKE_CUDA_COMPILER=${CUDAXX}" "-DCMAKE_CUDA_ARCHITECTURES=${CUDA_ARCHITECTURES}")
endif()
run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}" -B "${work}/build" -G "${GENERATOR}"
    -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_COMPILER=${CXX}" ${cuda} "-DCMAKE_PREFIX_PATH=${work}/install")
run("${CMAKE_COMMAND}" --build "${work}/build")
run("${work}/build/minimal")
if(EXISTS "${work}/build/trip")
  run("${work}/build/trip" "${work}/output")
endif()
