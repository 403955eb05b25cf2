// Numbered tiles that cover many pieces of work. Blocks take tiles in turn, and search each tile's piece from
// the last one found.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace saeta::cuda {

/// The index of the tile's piece, which is `from` or later.
/// @tparam Piece  has a member `first_tile`, which increases from piece to piece.
template <class Piece>
__device__ std::int64_t piece_of(const Piece* pieces, std::int64_t count, std::int64_t from,
                                 std::int64_t tile) {
  std::int64_t at = from;
  std::int64_t step = 1;
  for (; at + step < count && pieces[at + step].first_tile <= tile; step *= 2) {
    at += step;
  }
  for (std::int64_t past = min(at + step, count); past - at > 1;) {
    const std::int64_t middle = at + (past - at) / 2;
    if (pieces[middle].first_tile <= tile) {
      at = middle;
    } else {
      past = middle;
    }
  }
  return at;
}

/// Calls `visit(piece, tile)` in every thread of the block for each tile of this block; `tile` counts within
/// the piece. Blocks take tiles in turn, because adjacent tiles are usually of one kind and take equally
/// long.
template <class Piece, class Visit>
__device__ void for_each_tile(const Piece* pieces, std::int64_t count, std::int64_t tiles, Visit visit) {
  std::int64_t at = 0;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    at = piece_of(pieces, count, at, tile);
    visit(at, tile - pieces[at].first_tile);
  }
}

} // namespace saeta::cuda
