#include "saeta/backend/cuda/context.hpp"
#include "saeta/backend/cuda/cuda_backend.hpp"
#include "saeta/backend/cuda/driver.hpp"
#include "saeta/backend/cuda/ipc_memory.hpp"
#include "saeta/backend/cuda/version.hpp"
#include "saeta/base/process.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <optional>

namespace saeta {
namespace {

/// 1 + the fork generation in which CUDA started; 0 if it has not started yet.
constinit std::atomic<std::uint64_t> usable_in{0};

bool parent_used_cuda() noexcept {
  const std::uint64_t seen = usable_in.load();
  return seen != 0 && seen != fork_generation() + 1;
}

std::string explain_failure(cudaError_t status, const cuda_status& cuda_status) {
  switch (status) {
  case cudaSuccess:
  case cudaErrorNoDevice:
    return "the NVIDIA driver shows no device to this process";
  case cudaErrorInsufficientDriver:
    return cuda_status.driver_version == 0
               ? "no NVIDIA driver is installed (libcuda.so.1 was not found)"
               : concat("the NVIDIA driver supports CUDA ", cuda::version_text(cuda_status.driver_version),
                        ", and this build needs CUDA ", cuda::version_text(cuda_status.runtime_version));
  case cudaErrorInitializationError:
    return fork_generation() != 0 ? std::string(cuda::forked)
                                  : concat("CUDA can't start in this process: ", cuda::describe(status));
  default:
    return concat("the NVIDIA driver refused: ", cuda::describe(status));
  }
}

/// Whether the device has an active primary context in this process. The query creates none.
bool in_use(CUdevice device) {
  unsigned flags = 0;
  int active = 0;
  cuda::check(cuda::driver().primary_context_get_state(device, &flags, &active),
              "cuDevicePrimaryCtxGetState");
  return active != 0;
}

std::uint64_t free_bytes_of(std::int32_t ordinal) {
  const cuda::active_context active(cuda::primary_context(ordinal));
  std::size_t free = 0;
  std::size_t total = 0;
  cuda::check(cuda::driver().memory_get_info(&free, &total), "cuMemGetInfo");
  return free;
}

} // namespace

cuda_status probe_cuda() {
  cuda_status cuda_status;
  if (parent_used_cuda()) {
    cuda_status.reason = cuda::forked;
    return cuda_status;
  }
  cuda::check(cudaRuntimeGetVersion(&cuda_status.runtime_version), "cudaRuntimeGetVersion");
  if (cudaDriverGetVersion(&cuda_status.driver_version) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    cuda_status.driver_version = 0;
  }
  const cudaError_t status = cudaGetDeviceCount(&cuda_status.devices);
  if (status != cudaSuccess || cuda_status.devices == 0) {
    static_cast<void>(cudaGetLastError());
    cuda_status.devices = 0;
    cuda_status.reason = explain_failure(status, cuda_status);
    return cuda_status;
  }
  usable_in = fork_generation() + 1; // CUDA has started, even if the driver proves too old
  cuda_status.reason = cuda::driver_too_old(cuda_status.driver_version);
  cuda_status.usable = cuda_status.reason.empty();
  if (!cuda_status.usable) {
    cuda_status.devices = 0;
  }
  return cuda_status;
}

device_properties describe_cuda_device(std::int32_t ordinal) {
  const cuda_status status = probe_cuda();
  if (ordinal < 0 || ordinal >= status.devices) {
    throw error(errc::device, status.usable ? concat("cuda:", ordinal, " is not a device: this process sees ",
                                                     status.devices, " CUDA devices")
                                            : concat("cuda:", ordinal, " can't be used: ", status.reason));
  }
  const cuda::driver_calls& calls = cuda::driver();
  CUdevice device = 0;
  cuda::check(calls.device_get(&device, ordinal), "cuDeviceGet", ": device ", ordinal);
  std::array<char, 256> name{};
  cuda::check(calls.device_get_name(name.data(), static_cast<int>(name.size()), device), "cuDeviceGetName");
  std::size_t total = 0;
  cuda::check(calls.device_total_memory(&total, device), "cuDeviceTotalMem");
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    cuda::check(calls.device_get_attribute(&value, which, device), "cuDeviceGetAttribute");
    return value;
  };
  CUuuid uuid{};
  cuda::check(calls.device_get_uuid(&uuid, device), "cuDeviceGetUuid");
  device_properties properties{
      .name = name.data(),
      .total_bytes = total,
      .free_bytes = in_use(device) ? std::optional(free_bytes_of(ordinal)) : std::nullopt,
      .architecture = concat("sm_", attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                             attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)),
      .driver = cuda::version_text(status.driver_version),
      .multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)};
  static_assert(sizeof uuid.bytes == sizeof properties.uuid);
  std::memcpy(properties.uuid.data(), uuid.bytes, sizeof uuid.bytes);
  properties.largest_pool_export = cuda::largest_pool_export;
  return properties;
}

} // namespace saeta
