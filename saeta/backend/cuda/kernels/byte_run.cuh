// Reads a run of bytes at any address as aligned vectors of 16 bytes, and a few bits of a bitmap as a word.
#pragma once

#include "saeta/backend/cuda/kernels/bit_stream.cuh"

#include <cuda_runtime.h>

#include <cstdint>

namespace saeta::cuda {

/// Bytes [first, last), read as aligned vectors of 16 bytes. Vectors that reach across an end are built byte
/// by byte, because no byte outside the run may be touched.
struct byte_run {
  const std::uint8_t* first;
  const std::uint8_t* last;

  /// The 16 aligned bytes at `at`; bytes outside the run are zero.
  [[nodiscard]] __device__ uint4 load(const std::uint8_t* at) const {
    if (at >= first && at + vector_bytes <= last) {
      return __ldg(reinterpret_cast<const uint4*>(at));
    }
    unsigned part[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < vector_bytes; ++i) {
      if (at + i >= first && at + i < last) {
        part[i / 4] |= static_cast<unsigned>(at[i]) << (8 * (i % 4));
      }
    }
    return make_uint4(part[0], part[1], part[2], part[3]);
  }
};

/// Up to 32 bits from bit `first` of `source` on. Reads only the bytes that hold them.
__device__ inline unsigned read_bits(const std::uint8_t* source, std::int64_t first, int count) {
  const auto shift = static_cast<int>(first % 8);
  const std::uint8_t* const from = source + first / 8;
  const int bytes = (shift + count + 7) / 8;
  unsigned long long found = 0;
#pragma unroll
  for (int i = 0; i < 5; ++i) {
    if (i < bytes) {
      found |= static_cast<unsigned long long>(from[i]) << (8 * i);
    }
  }
  return keep_below(static_cast<unsigned>(found >> shift), 0, count);
}

} // namespace saeta::cuda
