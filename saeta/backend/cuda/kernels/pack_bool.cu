#include "saeta/backend/cuda/kernels/bit_stream.cuh"
#include "saeta/backend/cuda/kernels/kernels.hpp"

namespace saeta::cuda {
namespace {

/// Bit i of the result is set where byte i of `bytes` is not 0.
__device__ unsigned gather_bytes(unsigned bytes) {
  constexpr unsigned low_seven = 0x7f7f7f7f;
  const unsigned high_bits = (((bytes & low_seven) + low_seven) | bytes) & ~low_seven;
  return ((high_bits >> 7) * 0x10204080u) >> 28;
}

/// Reads the bytes as a run of bits: a vector holds 16 bytes, which become 16 bits of the target.
__global__ void __launch_bounds__(block_threads)
    pack_vectors(bit_stream source, std::int64_t vectors, std::uint16_t* __restrict__ target) {
  for_each_vector(source, vectors, [&](std::int64_t vector, uint4 bytes, int) {
    const unsigned bits = gather_bytes(bytes.x) | gather_bytes(bytes.y) << 4 | gather_bytes(bytes.z) << 8 |
                          gather_bytes(bytes.w) << 12;
    target[vector] = static_cast<std::uint16_t>(bits);
  });
}

const kernel_module kernels_here(pack_vectors);

} // namespace

void pack_bool(stream_handle stream, const std::uint8_t* source, std::int64_t length, std::uint8_t* target) {
  if (length == 0) {
    return;
  }
  auto* const aligned_target = reinterpret_cast<std::uint16_t*>(bitmap_target(target));
  const launch_site site(target, stream);
  const auto vectors = static_cast<std::int64_t>(bitmap_bytes(length) / sizeof(std::uint16_t));
  site.launch("pack_bool", pack_vectors, vectors, make_bit_stream(source, 0, length * 8), vectors,
              aligned_target);
}

} // namespace saeta::cuda
