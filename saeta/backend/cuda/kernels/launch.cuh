// Launches kernels: chooses the device and the number of blocks, and checks the result.
//
// Every kernel has blocks of `block_threads` threads and walks its work in a grid-stride loop. A thread makes
// `unroll` independent accesses at a time, so that enough loads are in flight to fill the memory's bandwidth.
// The grid of `launch` holds at most the blocks that are resident at once: more blocks would only add atomics
// and a partial last wave. Each file that launches has a `kernel_module`, so that no launch loads code.
#pragma once

#include "saeta/backend/cuda/context.hpp"
#include "saeta/backend/cuda/driver.hpp"
#include "saeta/backend/cuda/kernels/modules.hpp"
#include "saeta/device/handles.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace saeta::cuda {

inline constexpr int block_threads = 256;
inline constexpr int unroll = 4;

/// A stream of the device that holds `memory`. That device's context is current while the object lives.
class launch_site {
public:
  /// @throws error device for memory that CUDA did not allocate.
  launch_site(const void* memory, stream_handle stream) : launch_site(device_of(memory), stream) {}

  /// Queues a kernel for `items` items of work, with at least one block.
  template <class... Parameters, class... Arguments>
  void launch(const char* name, void (*kernel)(Parameters...), std::int64_t items,
              Arguments&&... arguments) const {
    constexpr std::int64_t items_of_block = std::int64_t{block_threads} * unroll;
    const std::int64_t blocks = (items + items_of_block - 1) / items_of_block;
    queue(name, kernel, limit_blocks(name, kernel, blocks, 1), std::forward<Arguments>(arguments)...);
  }

  /// Queues a kernel for `tiles` tiles; a block works on one tile at a time (tiles.cuh). The grid has several
  /// waves, which balances tiles that take different times: a join of doubles and their bitmaps is 12% faster
  /// with it.
  template <class... Parameters, class... Arguments>
  void launch_tiles(const char* name, void (*kernel)(Parameters...), std::int64_t tiles,
                    Arguments&&... arguments) const {
    constexpr int waves = 4;
    queue(name, kernel, limit_blocks(name, kernel, tiles, waves), std::forward<Arguments>(arguments)...);
  }

  /// The same with a block for each tile. The device begins them in their order, so the blocks that run at
  /// one time have adjacent tiles.
  template <class... Parameters, class... Arguments>
  void launch_in_order(const char* name, void (*kernel)(Parameters...), std::int64_t tiles,
                       Arguments&&... arguments) const {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    queue(name, kernel, std::min(tiles, most), std::forward<Arguments>(arguments)...);
  }

  /// Queues a fill of bytes.
  void fill(void* target, std::uint8_t value, std::size_t bytes) const;
  void zero(void* target, std::size_t bytes) const { fill(target, 0, bytes); }

private:
  launch_site(std::int32_t ordinal, stream_handle stream);
  static std::int32_t device_of(const void* memory);
  /// @param waves  the largest grid, as a multiple of the blocks that are resident at once.
  template <class... Parameters>
  std::int64_t limit_blocks(const char* name, void (*kernel)(Parameters...), std::int64_t blocks,
                            int waves) const {
    int resident = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, block_threads, 0), name,
          ": blocks of a multiprocessor");
    return std::min(blocks, std::int64_t{multiprocessors()} * resident * waves);
  }
  template <class... Parameters, class... Arguments>
  void queue(const char* name, void (*kernel)(Parameters...), std::int64_t blocks,
             Arguments&&... arguments) const {
    cudaLaunchConfig_t shape{};
    shape.gridDim = dim3(static_cast<unsigned>(std::max(blocks, std::int64_t{1})));
    shape.blockDim = dim3(block_threads);
    shape.stream = stream_;
    check(cudaLaunchKernelEx(&shape, kernel, std::forward<Arguments>(arguments)...), name, ": ", blocks,
          " blocks");
  }
  [[nodiscard]] int multiprocessors() const;

  std::int32_t ordinal_;
  active_context active_;
  cudaStream_t stream_;
};

/// This thread's index in the grid, and the number of threads in it.
__device__ inline std::int64_t grid_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t grid_threads() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

} // namespace saeta::cuda
