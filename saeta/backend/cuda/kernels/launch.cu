#include "saeta/backend/cuda/driver.hpp"
#include "saeta/backend/cuda/kernels/launch.cuh"

namespace saeta::cuda {

launch_site::launch_site(std::int32_t ordinal, stream_handle stream)
    : ordinal_(ordinal), active_(primary_context(ordinal)), stream_(reinterpret_cast<cudaStream_t>(stream)) {}

std::int32_t launch_site::device_of(const void* memory) {
  int ordinal = -1;
  const auto address = reinterpret_cast<CUdeviceptr>(memory);
  const CUresult status =
      driver().pointer_get_attribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  check(status, "cuPointerGetAttribute", ": is ", memory, " device memory?");
  return ordinal;
}

int launch_site::multiprocessors() const {
  int found = 0;
  check(cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, ordinal_), "cudaDeviceGetAttribute");
  return found;
}

void launch_site::fill(void* target, std::uint8_t value, std::size_t bytes) const {
  check(cudaMemsetAsync(target, value, bytes, stream_), "cudaMemsetAsync", ": ", bytes, " bytes");
}

} // namespace saeta::cuda
