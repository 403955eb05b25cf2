// A run of bits at any address and bit offset, read by a whole grid as vectors of 128 bits.
//
// Vector v holds bits [128 v, 128 v + 128) of the run, zero past its end. Inner vectors take two aligned
// 16-byte loads and a shift. The few at either end are built byte by byte: a byte outside the run can lie
// outside its allocation, so it must not be touched.

#pragma once

#include "saeta/backend/cuda/kernels/launch.cuh"
#include "saeta/base/text.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

namespace saeta::cuda {

inline constexpr std::int64_t vector_bits = 128;
inline constexpr std::int64_t vector_bytes = 16;

struct bit_stream {
  const uint4* words;        ///< aligned address at or below the first byte
  const std::uint8_t* first; ///< first and last byte of the run
  const std::uint8_t* last;
  std::int64_t length; ///< bits, more than 0
  std::int64_t
      inner_begin; ///< vectors [inner_begin, inner_end) are whole, and both their loads stay in the run
  std::int64_t inner_end;
  unsigned shift; ///< bits from `words` to the first bit of the run, less than 128
};

inline bit_stream make_bit_stream(const std::uint8_t* source, std::int64_t bit_offset, std::int64_t length) {
  bit_stream run{};
  run.first = source + bit_offset / 8;
  run.last = source + (bit_offset + length - 1) / 8;
  run.length = length;
  const auto misaligned =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(run.first) % vector_bytes);
  run.words = reinterpret_cast<const uint4*>(run.first - misaligned);
  run.shift = static_cast<unsigned>(misaligned * 8 + bit_offset % 8);
  const std::int64_t bytes = run.last - run.first + 1 + misaligned;
  run.inner_begin = misaligned == 0 ? 0 : 1;
  run.inner_end = std::max(run.inner_begin, std::min(bytes / vector_bytes - 1, length / vector_bits));
  return run;
}

/// The low half of the 256 bits `high`:`low` shifted right.
__device__ inline uint4 shift_right(uint4 low, uint4 high, unsigned shift) {
  unsigned part[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int i = 0; i < 6; ++i) {
    part[i] = (shift & 64) != 0 ? part[i + 2] : part[i];
  }
#pragma unroll
  for (int i = 0; i < 5; ++i) {
    part[i] = (shift & 32) != 0 ? part[i + 1] : part[i];
  }
  return make_uint4(__funnelshift_r(part[0], part[1], shift), __funnelshift_r(part[1], part[2], shift),
                    __funnelshift_r(part[2], part[3], shift), __funnelshift_r(part[3], part[4], shift));
}

__device__ inline int popcount(uint4 bits) {
  return __popc(bits.x) + __popc(bits.y) + __popc(bits.z) + __popc(bits.w);
}

/// Sixteen aligned bytes; bytes outside the run are zero.
__device__ inline uint4 load_guarded(const bit_stream& run, std::int64_t vector) {
  const auto* const from = reinterpret_cast<const std::uint8_t*>(run.words + vector);
  unsigned part[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < vector_bytes; ++i) {
    if (from + i >= run.first && from + i <= run.last) {
      part[i / 4] |= static_cast<unsigned>(from[i]) << (8 * (i % 4));
    }
  }
  return make_uint4(part[0], part[1], part[2], part[3]);
}

/// How many bits of vector `vector` belong to the run.
__device__ inline int valid_bits(const bit_stream& run, std::int64_t vector) {
  const std::int64_t left = run.length - vector * vector_bits;
  return static_cast<int>(left < 0 ? 0 : left > vector_bits ? vector_bits : left);
}

/// Clears the bits of `part` from bit `end` of the vector on. Bit 0 of `part` is bit `begin` of the vector.
__device__ inline unsigned keep_below(unsigned part, int begin, int end) {
  return end - begin >= 32 ? part : end <= begin ? 0u : part & ((1u << (end - begin)) - 1);
}

__device__ inline uint4 load_edge(const bit_stream& run, std::int64_t vector) {
  const uint4 bits = shift_right(load_guarded(run, vector), load_guarded(run, vector + 1), run.shift);
  const int end = valid_bits(run, vector);
  return make_uint4(keep_below(bits.x, 0, end), keep_below(bits.y, 32, end), keep_below(bits.z, 64, end),
                    keep_below(bits.w, 96, end));
}

/// Calls `visit(vector, bits, valid)` once in the grid for each vector below `count`, which may exceed the
/// run: vectors past its end have only zero bits and no valid ones.
template <class Visit>
__device__ void for_each_vector(const bit_stream& run, std::int64_t count, Visit visit) {
  const std::int64_t thread = grid_thread();
  const std::int64_t threads = grid_threads();
  for (std::int64_t start = run.inner_begin + thread; start < run.inner_end; start += unroll * threads) {
    uint4 low[unroll];
    uint4 high[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t vector = start + i * threads;
      if (vector < run.inner_end) {
        low[i] = __ldg(run.words + vector);
        high[i] = __ldg(run.words + vector + 1);
      }
    }
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t vector = start + i * threads;
      if (vector < run.inner_end) {
        visit(vector, shift_right(low[i], high[i], run.shift), static_cast<int>(vector_bits));
      }
    }
  }
  const std::int64_t edges = run.inner_begin + count - run.inner_end;
  for (std::int64_t i = thread; i < edges; i += threads) {
    const std::int64_t vector = i < run.inner_begin ? i : run.inner_end + i - run.inner_begin;
    visit(vector, load_edge(run, vector), valid_bits(run, vector));
  }
}

/// The bitmap that a kernel writes, in whole vectors of 16 bytes, padding included.
inline uint4* bitmap_target(std::uint8_t* target) {
  if (reinterpret_cast<std::uintptr_t>(target) % vector_bytes != 0) {
    throw error(errc::invalid_argument, concat("target of a bitmap: ", static_cast<const void*>(target),
                                               " is not aligned to ", vector_bytes, " bytes"));
  }
  return reinterpret_cast<uint4*>(target);
}

} // namespace saeta::cuda
