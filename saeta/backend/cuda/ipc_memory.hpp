// Memory of cudaMalloc that processes share by handles of CUDA IPC.
//
// What      Memory of a pool is shared through the pool (memory_pool.hpp), up to a size:
//           cudaMemPoolImportPointer of driver 580.159 opens an allocation of 5 GiB and crashes with one of 6
//           (SIGSEGV, H100 and H200). Handles of CUDA IPC have no such limit.
// Thread    Any. The device's primary context must be current.
// Failure   error device.
#pragma once

#include "saeta/device/handles.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <mutex>
#include <set>

namespace saeta::cuda {

/// Bytes of an allocation of a pool that other processes can open.
inline constexpr std::uint64_t largest_pool_export = std::uint64_t{4} << 30;

/// Whether memory has a handle of CUDA IPC. Memory of pools has none.
[[nodiscard]] bool has_ipc_handle(const void* base);
/// Names the allocation that begins at `base`.
[[nodiscard]] allocation_name ipc_name_of(const void* base);
/// Whether a name is one of `ipc_name_of`.
[[nodiscard]] bool is_ipc_name(const allocation_name& name) noexcept;

/// The allocations of other processes that this process has opened.
class opened_ipc_memory {
public:
  [[nodiscard]] void* open(const allocation_name& name);
  [[nodiscard]] bool contains(void* pointer) const noexcept;
  [[nodiscard]] cudaError_t close(void* pointer) noexcept;

private:
  mutable std::mutex mutex_;
  std::set<void*> opened_;
};

} // namespace saeta::cuda
