# Libraries that bench/allocate is compiled against to compare with them: RMM, and torch's allocator. A library that is not
# found is left out, with a note at the end of the configuration.

set(SAETA_TORCH_ROOT "" CACHE PATH "Folder of the package torch, for bench/allocate; that of the chosen Python when empty")

if(TARGET saeta_librmm)
  target_link_libraries(bench_allocate PRIVATE saeta_librmm)
  target_compile_definitions(bench_allocate PRIVATE SAETA_BENCH_HAS_RMM=1)
else()
  target_compile_definitions(bench_allocate PRIVATE SAETA_BENCH_HAS_RMM=0)
  saeta_note("bench/allocate compares with no RMM: see the line of rmm, or set SAETA_RMM_ROOT")
endif()

set(torch_root "${SAETA_TORCH_ROOT}")
if(NOT torch_root)
  # Only finds torch's folder: importing it takes seconds.
  saeta_python_value(torch_root "import os, importlib.util as u; print(os.path.dirname(u.find_spec('torch').origin))")
endif()
find_path(torch_include c10/cuda/CUDACachingAllocator.h HINTS "${torch_root}/include" NO_CACHE)
find_library(torch_c10 c10 HINTS "${torch_root}/lib" NO_CACHE)
find_library(torch_c10_cuda c10_cuda HINTS "${torch_root}/lib" NO_CACHE)
# Not CUDAToolkit_INCLUDE_DIRS: with CMake 4 they include the toolkit's CCCL, and RMM needs the newer one that it bundles.
find_path(cuda_include cuda_runtime_api.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_CACHE)
if(SAETA_WITH_CUDA AND torch_include AND torch_c10 AND torch_c10_cuda AND cuda_include)
  target_include_directories(bench_allocate SYSTEM PRIVATE "${torch_include}" "${cuda_include}")
  # libc10_cuda finds its CUDA runtime by the rpath of the wheel, so the linker need not resolve it.
  target_link_libraries(bench_allocate PRIVATE "${torch_c10}" "${torch_c10_cuda}")
  target_link_options(bench_allocate PRIVATE -Wl,--allow-shlib-undefined)
  target_compile_definitions(bench_allocate PRIVATE SAETA_BENCH_HAS_TORCH=1)
else()
  target_compile_definitions(bench_allocate PRIVATE SAETA_BENCH_HAS_TORCH=0)
  saeta_note("bench/allocate compares with no torch: a torch for CUDA was not found (or set SAETA_TORCH_ROOT)")
endif()
