#include "saeta/backend/cuda/kernels/bit_stream.cuh"
#include "saeta/backend/cuda/kernels/block_sum.cuh"
#include "saeta/backend/cuda/kernels/kernels.hpp"

namespace saeta::cuda {
namespace {

__global__ void __launch_bounds__(block_threads)
    copy_vectors(bit_stream source, std::int64_t vectors, uint4* __restrict__ target,
                 std::int64_t* null_count) {
  unsigned long long nulls = 0;
  for_each_vector(source, vectors, [&](std::int64_t vector, uint4 bits, int valid) {
    target[vector] = bits;
    nulls += static_cast<unsigned>(valid - popcount(bits));
  });
  if (null_count != nullptr) {
    add_block_sum(nulls, null_count);
  }
}

const kernel_module kernels_here(copy_vectors);

} // namespace

void copy_bitmap(stream_handle stream, const std::uint8_t* source, std::int64_t bit_offset,
                 std::int64_t length, std::uint8_t* target, std::int64_t* null_count) {
  if (length == 0 && null_count == nullptr) {
    return;
  }
  uint4* const aligned_target = bitmap_target(target);
  const launch_site site(length == 0 ? static_cast<const void*>(null_count) : target, stream);
  if (null_count != nullptr) {
    site.zero(null_count, sizeof *null_count);
  }
  if (length == 0) {
    return;
  }
  const auto vectors = static_cast<std::int64_t>(bitmap_bytes(length)) / vector_bytes;
  site.launch("copy_bitmap", copy_vectors, vectors, make_bit_stream(source, bit_offset, length), vectors,
              aligned_target, null_count);
}

} // namespace saeta::cuda
