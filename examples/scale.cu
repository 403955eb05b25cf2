#include "scale.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <stdexcept>

namespace {

__global__ void scale_kernel(const float* source, std::int64_t length, float* target) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < length;
       i += step) {
    target[i] = scale_factor * source[i];
  }
}

void check(cudaError_t status) {
  if (status != cudaSuccess) {
    throw std::runtime_error(cudaGetErrorString(status));
  }
}

} // namespace

bool scale_knows_cuda() { return true; }

void scale(saeta::stream_ref stream, const float* source, std::int64_t length, float* target) {
  const saeta::device_id device = stream.owner().device();
  if (device.kind != saeta::device_kind::cuda) {
    scale_on_host(source, length, target);
    return;
  }
  if (length == 0) {
    return;
  }
  constexpr std::int64_t threads = 256;
  constexpr std::int64_t most_blocks = 4096;
  const auto blocks = static_cast<unsigned>(std::min((length + threads - 1) / threads, most_blocks));
  check(cudaSetDevice(device.ordinal));
  const auto queue = reinterpret_cast<cudaStream_t>(stream.native_handle());
  scale_kernel<<<blocks, threads, 0, queue>>>(source, length, target);
  check(cudaGetLastError());
}
