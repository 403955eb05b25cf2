// Sums over a block, and over a grid with one atomic addition per block.

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

/// A thread's result of `sum_of_block`.
struct block_sums {
  std::int64_t before; ///< sum over the threads of the block before this one
  std::int64_t total;  ///< sum over all threads of the block
};

/// Sums `value` over the block. Every thread of the block must call it; it may be called repeatedly.
__device__ inline block_sums sum_of_block(std::int64_t value) {
  constexpr int warp_threads = 32;
  constexpr unsigned whole_warp = 0xffffffffu;
  __shared__ std::int64_t of_warps[block_threads / warp_threads];
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  const int warp = static_cast<int>(threadIdx.x) / warp_threads;
  std::int64_t up_to = value;
#pragma unroll
  for (int distance = 1; distance < warp_threads; distance *= 2) {
    const std::int64_t other = __shfl_up_sync(whole_warp, up_to, distance);
    up_to += lane >= distance ? other : 0;
  }
  if (lane == warp_threads - 1) {
    of_warps[warp] = up_to;
  }
  __syncthreads();
  block_sums sums{up_to - value, 0};
#pragma unroll
  for (int i = 0; i < block_threads / warp_threads; ++i) {
    sums.before += i < warp ? of_warps[i] : 0;
    sums.total += of_warps[i];
  }
  __syncthreads(); // the next call writes again
  return sums;
}

} // namespace saeta::cuda
