// Work in numbered tiles of many pieces: blocks take them in turn, and find the piece of each from that of the one before.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace saeta::cuda {

/// The piece that a tile belongs to, which is `from` or a later one.
/// @tparam Piece  has `first_tile`, rising.
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

/// Calls `visit(piece, tile)` for the tiles of this block, counted within their piece. Every thread of the block does. Blocks take
/// tiles in turn: those of one kind lie side by side, and take as long as each other.
template <class Piece, class Visit>
__device__ void for_each_tile(const Piece* pieces, std::int64_t count, std::int64_t tiles, Visit visit) {
  std::int64_t at = 0;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    at = piece_of(pieces, count, at, tile);
    visit(at, tile - pieces[at].first_tile);
  }
}

} // namespace saeta::cuda
