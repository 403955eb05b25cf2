// Tiles of `take` that write the bytes of strings and the rows of lists. They find the list of each byte or
// row in the new offsets, so that long and short lists take equally long.
#pragma once

#include "saeta/backend/cuda/kernels/byte_run.cuh"
#include "saeta/backend/cuda/kernels/launch.cuh"
#include "saeta/device/take_ranges.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace saeta::cuda {

/// The lists whose bytes or child rows lie in a tile.
struct list_range {
  std::int64_t first;
  std::int64_t past;
};

/// Every thread of the block must call it.
__device__ inline list_range lists_of_tile(const take_step& step, std::int64_t begin, std::int64_t end) {
  __shared__ std::int64_t found[2];
  __syncthreads(); // the tile before may still be read
  if (threadIdx.x < 2) {
    found[threadIdx.x] =
        take_rows::list_of(step, threadIdx.x == 0 ? begin : end - 1, 0, step.lists) + threadIdx.x;
  }
  __syncthreads();
  return {found[0], found[1]};
}

/// Sixteen bytes at any address of a run.
__device__ inline uint4 load_anywhere(const byte_run& run, const std::uint8_t* at) {
  const auto shift = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(at) % vector_bytes);
  const std::uint8_t* const aligned = at - shift;
  const uint4 low = run.load(aligned);
  return shift == 0 ? low : shift_right(low, run.load(aligned + vector_bytes), shift * 8);
}

/// The bytes of one string, from a byte of the target on.
struct string_rest {
  const std::uint8_t* from;
  const std::uint8_t* first; ///< first byte of the whole source, not of this string
  std::int64_t source_bytes;
  std::int64_t end; ///< byte of the target where the string ends

  __device__ string_rest(const take_step& step, const take_source* sources, std::int64_t list,
                         std::int64_t at) {
    const take_rows::taken_list taken_list = take_rows::list_at(step, sources, list);
    first = taken_list.bytes;
    source_bytes = taken_list.limit;
    from = first + taken_list.source + (at - taken_list.start);
    end = list + 1 == step.lists ? step.count : take_rows::load_signed(step.starts, step.width, list + 1);
  }
};

__device__ inline void bytes_tile(const take_step& step, const take_source* sources, std::int64_t tile) {
  const std::int64_t begin = tile * take_tile_bytes;
  const std::int64_t end = min(begin + take_tile_bytes, step.count);
  const list_range lists = lists_of_tile(step, begin, end);
  auto* const target = static_cast<std::uint8_t*>(step.target);
  for (std::int64_t at = begin + threadIdx.x * vector_bytes; at < end; at += block_threads * vector_bytes) {
    const std::int64_t past = min(at + vector_bytes, end);
    std::int64_t list = take_rows::list_of(step, at, lists.first, lists.past);
    string_rest rest(step, sources, list, at);
    if (past - at == vector_bytes && past <= rest.end) {
      *reinterpret_cast<uint4*>(target + at) =
          load_anywhere({rest.first, rest.first + rest.source_bytes}, rest.from);
      continue;
    }
    for (std::int64_t byte = at; byte < past; ++byte) {
      if (byte == rest.end) {
        list = take_rows::list_of(step, byte, list, lists.past);
        rest = string_rest(step, sources, list, byte);
      }
      target[byte] = *rest.from++;
    }
  }
}

__device__ inline void list_rows_tile(const take_step& step, const take_source* sources, std::int64_t tile) {
  const std::int64_t begin = tile * take_tile_child_rows;
  const std::int64_t end = min(begin + take_tile_child_rows, step.count);
  const list_range lists = lists_of_tile(step, begin, end);
  for (std::int64_t at = begin + threadIdx.x; at < end; at += block_threads) {
    const std::int64_t list = take_rows::list_of(step, at, lists.first, lists.past);
    const take_rows::taken_list taken_list = take_rows::list_at(step, sources, list);
    static_cast<std::int64_t*>(step.target)[at] =
        take_rows::chosen_row(taken_list.piece, taken_list.source + (at - taken_list.start));
  }
}

} // namespace saeta::cuda
