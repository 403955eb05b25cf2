// The memory pools of other processes that one device has imported.
//
// What      An imported pool has no access of its own: the device's, and that of other devices that may touch its memory, is set here.
// Owner     Whoever imported a pool releases it. Destroying the object releases none.
// Thread    Any; the device's primary context is current.
// Failure   error device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <mutex>
#include <vector>

namespace saeta::cuda {

class imported_pools {
public:
  explicit imported_pools(std::int32_t ordinal) : admitted_{ordinal} {}

  /// @param descriptor  from cudaMemPoolExportToShareableHandle of another process; stays the caller's.
  [[nodiscard]] cudaMemPool_t add(int descriptor);
  /// Allocations of it that are open stay valid.
  [[nodiscard]] cudaError_t release(cudaMemPool_t pool) noexcept;
  /// Work on device `ordinal` may touch what is opened of all of them, those of later, too.
  void admit(std::int32_t ordinal);

private:
  std::mutex mutex_;
  std::vector<std::int32_t> admitted_; ///< devices; the own one first
  std::vector<cudaMemPool_t> pools_;
};

} // namespace saeta::cuda
