// Sums over a grid with one atomic addition per block.
#pragma once

#include "saeta/backend/cuda/kernels/launch.cuh"

#include <cuda_runtime.h>

#include <cstdint>

namespace saeta::cuda {

/// Adds the `value` of every thread of the block to `*total`. Every thread of the block must call it, once
/// per kernel.
__device__ inline void add_block_sum(unsigned long long value, std::int64_t* total) {
  constexpr int warp_threads = 32;
  constexpr unsigned whole_warp = 0xffffffffu;
  __shared__ unsigned long long warp_sums[block_threads / warp_threads];
#pragma unroll
  for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
    value += __shfl_down_sync(whole_warp, value, distance);
  }
  if (threadIdx.x % warp_threads == 0) {
    warp_sums[threadIdx.x / warp_threads] = value;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned long long sum = 0;
    for (const unsigned long long part : warp_sums) {
      sum += part;
    }
    if (sum != 0) {
      atomicAdd(reinterpret_cast<unsigned long long*>(total), sum);
    }
  }
}

} // namespace saeta::cuda
