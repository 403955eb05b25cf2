#include "saeta/backend/cuda/kernels/kernels.hpp"
#include "saeta/backend/cuda/kernels/launch.cuh"

#include <cuda_runtime.h>

namespace saeta::cuda {
namespace {

/// Loads a signed value of 2, 4 or 8 bytes at any alignment.
__device__ std::int64_t load_value(const value_request& request, std::int64_t index) {
  const auto* const from = static_cast<const std::uint8_t*>(request.at) + index * request.width;
  std::uint64_t value = 0;
  for (int i = 0; i < request.width; ++i) {
    value |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  }
  const int unused = 64 - 8 * request.width;
  return static_cast<std::int64_t>(value << unused) >> unused;
}

__device__ std::int64_t first_above(const value_request& request) {
  std::int64_t low = 0;
  std::int64_t high = request.count;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (load_value(request, middle) > request.greater) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

__global__ void __launch_bounds__(block_threads)
    fetch_values(const value_request* __restrict__ requests, std::int64_t count, std::int64_t* values) {
  for (std::int64_t i = grid_thread(); i < count; i += grid_threads()) {
    const value_request request = requests[i];
    values[i] = request.search ? first_above(request) : load_value(request, 0);
  }
}

const kernel_module kernels_here(fetch_values);

} // namespace

void read_values(stream_handle stream, std::span<const value_request> requests, const value_request* uploaded,
                 std::int64_t* values) {
  if (requests.empty()) {
    return;
  }
  const launch_site site(values, stream);
  const auto count = static_cast<std::int64_t>(requests.size());
  site.launch("read_values", fetch_values, count, uploaded, count, values);
}

} // namespace saeta::cuda
