#include "saeta/backend/cuda/check.hpp"
#include "saeta/backend/cuda/cuda_backend.hpp"
#include "saeta/backend/cuda/version.hpp"

namespace saeta {
namespace {

std::string why_not(cudaError_t status, const cuda_status& found) {
  switch (status) {
  case cudaSuccess:
  case cudaErrorNoDevice:
    return "the NVIDIA driver shows no device to this process";
  case cudaErrorInsufficientDriver:
    return found.driver_version == 0
               ? "no NVIDIA driver is installed (libcuda.so.1 was not found)"
               : concat("the NVIDIA driver is for CUDA ", cuda::version_text(found.driver_version),
                        ", older than CUDA ", cuda::version_text(found.runtime_version), " of this build");
  case cudaErrorInitializationError:
    return concat("CUDA can't start in this process, as after a fork: ", cuda::describe(status));
  default:
    return concat("the NVIDIA driver refused: ", cuda::describe(status));
  }
}

} // namespace

cuda_status probe_cuda() {
  cuda_status found;
  cuda::check(cudaRuntimeGetVersion(&found.runtime_version), "cudaRuntimeGetVersion");
  if (cudaDriverGetVersion(&found.driver_version) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    found.driver_version = 0;
  }
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  found.usable = status == cudaSuccess && devices > 0;
  if (!found.usable) {
    static_cast<void>(cudaGetLastError());
    found.reason = why_not(status, found);
  }
  return found;
}

std::int32_t cuda_device_count() noexcept {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  return devices;
}

} // namespace saeta
