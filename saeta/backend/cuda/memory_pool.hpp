// A stream-ordered memory pool of one device. Only Saeta uses it, so trimming it takes nothing from other
// libraries.
//
// Owner     Memory allocated from the pool stays valid after the pool is destroyed, until it is freed.
// Thread    Any. The device's primary context must be current.
// Failure   error device or out_of_memory; unsupported on a device without such pools.

#pragma once

#include "saeta/device/handles.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace saeta::cuda {

class memory_pool {
public:
  /// On a device without pools the object is empty, and only `allocate` fails.
  /// @param exportable  whether other processes can open its memory through file descriptors
  /// (cudaMemPoolExportToShareableHandle).
  /// @throws error unsupported for an exportable pool on a device that supports none.
  explicit memory_pool(std::int32_t ordinal, bool exportable = false);
  memory_pool(const memory_pool&) = delete;
  memory_pool& operator=(const memory_pool&) = delete;
  ~memory_pool();

  void* allocate(std::size_t bytes, cudaStream_t stream);
  /// Returns the bytes that went back to the device. Memory whose free is still pending on a stream stays in
  /// the pool.
  std::size_t trim(std::size_t keep);
  /// Unused memory beyond `bytes` goes back to the device whenever the host synchronizes. A new pool keeps
  /// everything.
  void set_threshold(std::uint64_t bytes);

  /// Lets work on device `ordinal` touch memory of the pool, allocated before or after this call.
  void admit(std::int32_t ordinal);

  /// For an exportable pool: a descriptor that the caller closes, and the name of an allocation. The driver
  /// takes 50 us to name one, so names are kept until `forget_name`.
  /// @throws error device.
  [[nodiscard]] int descriptor() const;
  [[nodiscard]] allocation_name name_of(const void* base);
  /// Forgets the name of an allocation. Call it before the allocation is freed.
  void forget_name(const void* base) noexcept;

  /// Bytes taken from the device, used or not.
  [[nodiscard]] std::uint64_t reserved_bytes() const;

private:
  void share();

  std::int32_t ordinal_;
  cudaMemPool_t pool_ = nullptr;
  /// The descriptor of an exportable pool. The driver names allocations only of exported pools.
  int shared_ = -1;
  std::mutex names_mutex_;
  std::map<const void*, allocation_name> names_;
};

/// Lets work on device `ordinal` touch memory of a pool, allocated before or after this call. `whose` names
/// the pool's owner in errors.
void set_pool_access(cudaMemPool_t pool, std::int32_t ordinal, const std::string& whose);

/// The memory pools of other processes that one device has imported.
///
/// What      By default no device has access to an imported pool. This class gives access to its own device
///           and to the other devices that may touch the memory.
/// Owner     The caller that imported a pool releases it. The destructor releases none.
/// Thread    Any. The device's primary context must be current.
/// Failure   error device.
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
