// Work in numbered tiles of many pieces: each block takes an equal share of them, finds the piece of its first one, and goes
// from there.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace saeta::cuda {

/// Calls `visit(piece, tile)` for the tiles of this block, counted within their piece. Every thread of the block does.
/// @tparam Piece  has `first_tile`, rising.
template <class Piece, class Visit>
__device__ void for_each_tile(const Piece* pieces, std::int64_t count, std::int64_t tiles, Visit visit) {
  const std::int64_t begin = tiles * blockIdx.x / gridDim.x;
  const std::int64_t end = tiles * (blockIdx.x + std::int64_t{1}) / gridDim.x;
  if (begin == end) {
    return;
  }
  std::int64_t at = 0;
  for (std::int64_t past = count; past - at > 1;) {
    const std::int64_t middle = at + (past - at) / 2;
    if (pieces[middle].first_tile <= begin) {
      at = middle;
    } else {
      past = middle;
    }
  }
  for (std::int64_t tile = begin; tile < end; ++tile) {
    while (at + 1 < count && pieces[at + 1].first_tile <= tile) {
      ++at;
    }
    visit(at, tile - pieces[at].first_tile);
  }
}

} // namespace saeta::cuda
