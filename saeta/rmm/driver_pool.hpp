// Finds the driver's memory pool behind a resource of RMM, and gives its unused memory back.
//
// Failure   error device with CUDA's text.
// Links     the CUDA runtime.
#pragma once

#include "saeta/base/text.hpp"

#include <cuda/memory_resource>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/cuda_async_view_memory_resource.hpp>

namespace saeta {

/// Also looks into type-erased resources, but not below adaptors. Returns nullopt if there is no such pool.
template <class Resource>
[[nodiscard]] std::optional<cudaMemPool_t> driver_pool_of(Resource& of) {
  if constexpr (requires { of.pool_handle(); }) {
    return of.pool_handle();
  } else if constexpr (requires { cuda::mr::resource_cast<rmm::mr::cuda_async_memory_resource>(&of); }) {
    if (const auto* found = cuda::mr::resource_cast<rmm::mr::cuda_async_memory_resource>(&of)) {
      return found->pool_handle();
    }
    if (const auto* found = cuda::mr::resource_cast<rmm::mr::cuda_async_view_memory_resource>(&of)) {
      return found->pool_handle();
    }
  }
  return std::nullopt;
}

inline void require_success(cudaError_t status, const char* call) {
  if (status != cudaSuccess) {
    throw error(errc::device, concat(call, ": ", cudaGetErrorString(status)));
  }
}

/// Returns the number of bytes given back to the device.
inline std::size_t trim_driver_pool(cudaMemPool_t pool) {
  const auto reserved = [pool] {
    std::uint64_t bytes = 0;
    require_success(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes),
                    "cudaMemPoolGetAttribute");
    return bytes;
  };
  const std::uint64_t before = reserved();
  require_success(cudaMemPoolTrimTo(pool, 0), "cudaMemPoolTrimTo");
  const std::uint64_t after = reserved();
  return static_cast<std::size_t>(before > after ? before - after : 0);
}

} // namespace saeta
