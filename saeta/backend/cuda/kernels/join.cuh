// The tiles of `join`: values, bytes and bits that all threads of a block move.

#pragma once

#include "saeta/backend/cuda/kernels/bit_stream.cuh"
#include "saeta/backend/cuda/kernels/byte_run.cuh"
#include "saeta/backend/cuda/kernels/launch.cuh"
#include "saeta/device/join.hpp"

#include <cuda_runtime.h>

#include <cstdint>

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

// Tiles of `join` that copy bytes between any addresses, or that write zeros.

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

/// Tiles of `join` that copy bits between any bit positions and count the zeros, or that write ones.
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
