// Moves many values of a tile of `join` with all threads of a block.
#pragma once

#include "saeta/backend/cuda/kernels/launch.cuh"

#include <cuda_runtime.h>

namespace saeta::cuda {

/// Calls store(i, load(i)) for each i below `count`. Each thread handles `unroll` values at a time. Loads are
/// unconditional: an index past the end loads the last value again.
template <class Load, class Store>
__device__ void move_values(int count, Load load, Store store) {
  for (int start = static_cast<int>(threadIdx.x); start < count; start += unroll * block_threads) {
    decltype(load(0)) loaded[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      loaded[i] = load(min(start + i * block_threads, count - 1));
    }
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      if (start + i * block_threads < count) {
        store(start + i * block_threads, loaded[i]);
      }
    }
  }
}

} // namespace saeta::cuda
