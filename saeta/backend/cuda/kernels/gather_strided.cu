#include "saeta/backend/cuda/kernels/kernels.hpp"
#include "saeta/backend/cuda/kernels/values.cuh"

namespace saeta::cuda {
namespace {

/// `step` is the stride in values.
template <class Value>
__global__ void __launch_bounds__(block_threads)
    gather_values(const Value* __restrict__ source, std::int64_t step, std::int64_t length,
                  Value* __restrict__ target) {
  const std::int64_t threads = grid_threads();
  for (std::int64_t start = grid_thread(); start < length; start += unroll * threads) {
    Value loaded[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t row = start + i * threads;
      if (row < length) {
        loaded[i] = source[row * step];
      }
    }
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t row = start + i * threads;
      if (row < length) {
        target[row] = loaded[i];
      }
    }
  }
}

} // namespace

void gather_strided(stream_handle stream, const void* source, std::int64_t stride, std::int32_t width,
                    std::int64_t length, void* target) {
  if (length == 0) {
    return;
  }
  with_width(width, [&]<class Value>(Value) {
    const launch_site site(target, stream);
    site.launch("gather_strided", gather_values<Value>, length, static_cast<const Value*>(source),
                stride / width, length, static_cast<Value*>(target));
  });
}

} // namespace saeta::cuda
