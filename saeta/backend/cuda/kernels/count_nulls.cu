#include "saeta/backend/cuda/kernels/bit_stream.cuh"
#include "saeta/backend/cuda/kernels/block_sum.cuh"
#include "saeta/backend/cuda/kernels/kernels.hpp"

namespace saeta::cuda {
namespace {

__global__ void __launch_bounds__(block_threads)
    count_vectors(bit_stream source, std::int64_t vectors, std::int64_t* null_count) {
  unsigned long long nulls = 0;
  for_each_vector(source, vectors, [&](std::int64_t, uint4 bits, int valid) {
    nulls += static_cast<unsigned>(valid - popcount(bits));
  });
  add_block_sum(nulls, null_count);
}

const kernel_module kernels_here(count_vectors);

} // namespace

void count_nulls(stream_handle stream, const std::uint8_t* source, std::int64_t bit_offset,
                 std::int64_t length, std::int64_t* null_count) {
  const launch_site site(null_count, stream);
  site.zero(null_count, sizeof *null_count);
  if (length == 0) {
    return;
  }
  const std::int64_t vectors = (length + vector_bits - 1) / vector_bits;
  site.launch("count_nulls", count_vectors, vectors, make_bit_stream(source, bit_offset, length), vectors,
              null_count);
}

} // namespace saeta::cuda
