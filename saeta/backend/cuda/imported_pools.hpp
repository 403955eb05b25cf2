// The memory pools of other processes that one device has imported.
//
// What      By default no device has access to an imported pool. This class gives access to its own device
//           and to the other devices that may touch the memory.
// Owner     The caller that imported a pool releases it. The destructor releases none.
// Thread    Any. The device's primary context must be current.
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

  /// @param descriptor  from cudaMemPoolExportToShareableHandle of another process. The caller keeps and
  /// closes it.
  [[nodiscard]] cudaMemPool_t add(int descriptor);
  /// Open allocations of the pool stay valid.
  [[nodiscard]] cudaError_t release(cudaMemPool_t pool) noexcept;
  /// Lets work on device `ordinal` touch memory opened from these pools and from pools imported later.
  void admit(std::int32_t ordinal);

private:
  std::mutex mutex_;
  std::vector<std::int32_t> admitted_; ///< devices; the pools' own device first
  std::vector<cudaMemPool_t> pools_;
};

} // namespace saeta::cuda
