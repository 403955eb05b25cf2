#include "saeta/backend/cuda/kernels/kernels.hpp"
#include "saeta/backend/cuda/kernels/values.cuh"
#include "saeta/device/with_width.hpp"

namespace saeta::cuda {
namespace {

/// The offset of value `index` from the first value, in bytes.
__device__ std::int64_t distance_of(const strided_values& source, std::int64_t index) {
  std::int64_t distance = 0;
  for (int i = source.dimensions - 1; i > 0; --i) {
    const std::int64_t outer = index / source.extents[i];
    distance += (index - outer * source.extents[i]) * source.strides[i];
    index = outer;
  }
  return distance + index * source.strides[0];
}

template <class Value>
__global__ void __launch_bounds__(block_threads)
    gather_values(const __grid_constant__ strided_values source, std::int64_t length,
                  Value* __restrict__ target) {
  const std::int64_t threads = grid_threads();
  const auto* const first = static_cast<const unsigned char*>(source.first);
  for (std::int64_t start = grid_thread(); start < length; start += unroll * threads) {
    Value loaded[unroll];
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t at = start + i * threads;
      if (at < length) {
        loaded[i] = *reinterpret_cast<const Value*>(first + distance_of(source, at));
      }
    }
#pragma unroll
    for (int i = 0; i < unroll; ++i) {
      const std::int64_t at = start + i * threads;
      if (at < length) {
        target[at] = loaded[i];
      }
    }
  }
}

const kernel_module kernels_here(gather_values<std::uint8_t>);

} // namespace

void gather_strided(stream_handle stream, const strided_values& source, std::int32_t width, void* target) {
  const std::int64_t length = source.size();
  if (length == 0) {
    return;
  }
  with_width(width, [&]<class Value>(Value) {
    const launch_site site(target, stream);
    site.launch("gather_strided", gather_values<Value>, length, source, length, static_cast<Value*>(target));
  });
}

} // namespace saeta::cuda
