// A stream-ordered memory pool of one device: ours alone, so that trimming it takes nothing from other libraries.
//
// Owner     Destroying the pool keeps what is still allocated from it until that is freed.
// Thread    Any; the device's primary context is current.
// Failure   error device or out_of_memory; unsupported on a device without such pools.
#pragma once

#include "saeta/device/handles.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace saeta::cuda {

class memory_pool {
public:
  /// On a device without pools the object is empty, and only `allocate` fails.
  /// @param exportable  its memory can be shared with other processes by file descriptors (cudaMemPoolExportToShareableHandle).
  /// @throws error unsupported for an exportable pool where the device has none.
  explicit memory_pool(std::int32_t ordinal, bool exportable = false);
  memory_pool(const memory_pool&) = delete;
  memory_pool& operator=(const memory_pool&) = delete;
  ~memory_pool();

  void* allocate(std::size_t bytes, cudaStream_t stream);
  /// Returns the bytes that went back to the device. What was freed on a stream that has not got there yet stays.
  std::size_t trim(std::size_t keep);
  /// What is unused beyond so many bytes goes back whenever the host waits. At first everything is kept.
  void set_threshold(std::uint64_t bytes);

  /// Work on device `ordinal` may touch what is allocated from the pool, before this call or after it.
  void admit(std::int32_t ordinal);

  /// Of an exportable pool: a descriptor that the caller closes, and the name of an allocation. @throws error device.
  [[nodiscard]] int descriptor() const;
  [[nodiscard]] allocation_name name_of(const void* base) const;

  /// Bytes taken from the device, used or not.
  [[nodiscard]] std::uint64_t reserved_bytes() const;

private:
  void share();

  std::int32_t ordinal_;
  cudaMemPool_t pool_ = nullptr;
  int shared_ =
      -1; ///< the descriptor of an exportable pool: the driver names allocations only of pools that are shared already
};

/// Lets work on device `ordinal` touch what is allocated from a pool, before this call or after it. @param whose  the pool is.
void set_pool_access(cudaMemPool_t pool, std::int32_t ordinal, const std::string& whose);

} // namespace saeta::cuda
