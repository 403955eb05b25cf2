// Tiles of `join` that copy bits between any bit positions and count the zeros, or that write ones.
#pragma once

#include "saeta/backend/cuda/kernels/byte_run.cuh"
#include "saeta/backend/cuda/kernels/join_move.cuh"
#include "saeta/device/join.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace saeta::cuda {

__device__ inline std::int64_t count_words(std::int64_t bits) {
  return (bits + join_word_bits - 1) / join_word_bits;
}

/// The whole target words of a tile. Each is built from two aligned words inside the step's source.
struct word_range {
  int begin; ///< first word, counted within the tile
  int end;
  const unsigned* from; ///< source of the tile's word 0; may lie before the step's source
  unsigned shift;

  /// @param origin  bit of the step at bit 0 of the tile; negative if the step begins after it
  /// @param words   number of words of the tile
  __device__ word_range(const join_step& step, std::int64_t origin, int words) {
    std::int64_t first = -origin;
    std::int64_t last = (step.count - origin) / join_word_bits;
    if (step.kind == join_kind::bits) {
      const std::uint8_t* const byte =
          static_cast<const std::uint8_t*>(step.source) + step.bits.source_first / 8;
      const auto misaligned = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(byte) % 4);
      const std::int64_t bit =
          misaligned * 8 + step.bits.source_first % 8; // position of the step's first bit in aligned words
      const std::int64_t past = (bit + step.count + 7) / 8 / 4; // the first incomplete word
      first = max(first, (misaligned == 0 ? 0 : join_word_bits) - bit - origin);
      last = min(last, count_words(max((past - 1) * join_word_bits - bit - origin, std::int64_t{0})));
      const std::int64_t at = bit + origin + join_word_bits; // not negative
      from = reinterpret_cast<const unsigned*>(byte - misaligned) + at / join_word_bits - 1;
      shift = static_cast<unsigned>(at % join_word_bits);
    }
    begin = static_cast<int>(min(count_words(max(first, std::int64_t{0})), std::int64_t{words}));
    end = static_cast<int>(max(min(last, std::int64_t{words}), std::int64_t{begin}));
  }
};

/// Writes the target words that the step fills. Words at its ends may be shared with other steps, so atomics
/// set their bits.
__device__ inline void bits_tile(const join_step& step, std::int64_t tile) {
  constexpr std::int64_t words_of_tile = join_tile_bytes / 4;
  const bool copied = step.kind == join_kind::bits;
  const std::int64_t first_word = step.bits.target_first / join_word_bits + tile * words_of_tile;
  const std::int64_t origin = first_word * join_word_bits - step.bits.target_first;
  const auto words =
      static_cast<int>(min(words_of_tile, count_words(step.bits.target_first + step.count) - first_word));
  unsigned* const target = static_cast<unsigned*>(step.target) + first_word;
  const word_range inner(step, origin, words);
  const int whole = inner.end - inner.begin;
  unsigned* const to = target + inner.begin;
  unsigned nulls = 0;
  if (copied) {
    const unsigned* const from = inner.from + inner.begin;
    move_values(
        whole, [=](int at) { return __funnelshift_r(__ldg(from + at), __ldg(from + at + 1), inner.shift); },
        [&](int at, unsigned found) {
          to[at] = found;
          nulls += static_cast<unsigned>(__popc(~found));
        });
  } else {
    move_values(
        whole, [](int) { return ~0U; }, [=](int at, unsigned found) { to[at] = found; });
  }
  for (int i = static_cast<int>(threadIdx.x); i < words - whole; i += block_threads) {
    const int word = i < inner.begin ? i : i + whole;
    const std::int64_t low = max(origin + word * join_word_bits, std::int64_t{0}); // bits of the step
    const std::int64_t high = min(origin + (word + 1) * join_word_bits, step.count);
    const auto count = static_cast<int>(high - low);
    const unsigned found =
        copied ? read_bits(static_cast<const std::uint8_t*>(step.source), step.bits.source_first + low, count)
               : keep_below(~0U, 0, count);
    nulls += static_cast<unsigned>(count - __popc(found));
    atomicOr(target + word, found << (low - origin - word * join_word_bits));
  }
  if (step.bits.nulls != nullptr) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      nulls += __shfl_down_sync(0xffffffffu, nulls, distance);
    }
    if (threadIdx.x % 32 == 0 && nulls != 0) {
      atomicAdd(reinterpret_cast<unsigned long long*>(step.bits.nulls),
                static_cast<unsigned long long>(nulls));
    }
  }
}

} // namespace saeta::cuda
