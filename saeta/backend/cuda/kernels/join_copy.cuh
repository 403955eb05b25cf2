// Tiles of `join` that copy bytes between any addresses, or that write zeros.
#pragma once

#include "saeta/backend/cuda/kernels/bit_stream.cuh"
#include "saeta/backend/cuda/kernels/join_move.cuh"
#include "saeta/device/join.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace saeta::cuda {

/// The whole target vectors of a tile. Their loads are aligned and inside the step's source.
struct vector_range {
  std::int64_t begin; ///< first byte, counted within the step
  int vectors;
  unsigned shift; ///< the source's misalignment in bytes; if not 0, each vector takes two loads

  /// The range within bytes [first, last) of the step.
  __device__ vector_range(const join_step& step, std::int64_t first, std::int64_t last) {
    const auto target =
        static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(step.target) % vector_bytes);
    const auto source =
        static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(step.source) % vector_bytes);
    begin = first + (vector_bytes - (target + first) % vector_bytes) % vector_bytes;
    shift = step.kind == join_kind::zero ? 0U : static_cast<unsigned>((source + begin) % vector_bytes);
    std::int64_t end = last;
    if (shift != 0) {
      begin += begin < shift ? vector_bytes : 0;
      end = min(last, step.count - vector_bytes + shift);
    }
    begin = min(begin, last);
    vectors = static_cast<int>(max(end - begin, std::int64_t{0}) / vector_bytes);
  }
};

/// Copies whole vectors of the target, then the bytes at either end of the tile. The last tile also clears
/// the padding.
__device__ inline void copy_tile(const join_step& step, std::int64_t tile) {
  auto* const target = static_cast<std::uint8_t*>(step.target);
  const auto* const source = static_cast<const std::uint8_t*>(step.source);
  const auto skew = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(target) % vector_bytes);
  const std::int64_t begin = max(tile * join_tile_bytes - skew, std::int64_t{0});
  const std::int64_t end = min((tile + 1) * join_tile_bytes - skew, step.count);
  const bool zero = step.kind == join_kind::zero;

  const vector_range inner(step, begin, end);
  auto* const to = reinterpret_cast<uint4*>(target + inner.begin);
  const auto* const from = reinterpret_cast<const uint4*>(source + inner.begin - inner.shift);
  const auto store = [=](int at, uint4 loaded) { to[at] = loaded; };
  if (zero) {
    move_values(
        inner.vectors, [](int) { return make_uint4(0, 0, 0, 0); }, store);
  } else if (inner.shift == 0) {
    move_values(
        inner.vectors, [=](int at) { return __ldg(from + at); }, store);
  } else {
    const unsigned bits = inner.shift * 8;
    move_values(
        inner.vectors, [=](int at) { return shift_right(__ldg(from + at), __ldg(from + at + 1), bits); },
        store);
  }

  const auto head = static_cast<int>(inner.begin - begin);
  const std::int64_t rest = inner.begin + inner.vectors * vector_bytes;
  const int edges = head + static_cast<int>(end - rest);
  for (int i = static_cast<int>(threadIdx.x); i < edges; i += block_threads) {
    const std::int64_t at = i < head ? begin + i : rest + i - head;
    target[at] = zero ? std::uint8_t{0} : source[at];
  }
  const bool last = !zero && end == step.count;
  if (last && static_cast<std::int64_t>(threadIdx.x) < step.copy.zeros) {
    target[end + threadIdx.x] = 0;
  }
}

} // namespace saeta::cuda
