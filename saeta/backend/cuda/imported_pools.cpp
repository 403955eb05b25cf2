#include "saeta/backend/cuda/imported_pools.hpp"

#include "saeta/backend/cuda/check.hpp"
#include "saeta/backend/cuda/memory_pool.hpp"

#include <algorithm>

namespace saeta::cuda {

cudaMemPool_t imported_pools::add(int descriptor) {
  cudaMemPool_t pool = nullptr;
  // The pointer argument takes the descriptor's number itself.
  check(cudaMemPoolImportFromShareableHandle(&pool,
                                             reinterpret_cast<void*>(static_cast<std::uintptr_t>(descriptor)),
                                             cudaMemHandleTypePosixFileDescriptor, 0),
        "cudaMemPoolImportFromShareableHandle", " on cuda:", admitted_.front());
  try {
    const std::lock_guard lock(mutex_);
    for (const std::int32_t each : admitted_) {
      set_pool_access(pool, each, "another process");
    }
    pools_.push_back(pool);
  } catch (...) {
    static_cast<void>(check_or_report(cudaMemPoolDestroy(pool), "cudaMemPoolDestroy"));
    throw;
  }
  return pool;
}

cudaError_t imported_pools::release(cudaMemPool_t pool) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(pools_, pool);
  return cudaMemPoolDestroy(pool);
}

void imported_pools::admit(std::int32_t ordinal) {
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(admitted_, ordinal) != admitted_.end()) {
    return;
  }
  for (const cudaMemPool_t each : pools_) {
    set_pool_access(each, ordinal, "another process");
  }
  admitted_.push_back(ordinal);
}

} // namespace saeta::cuda
