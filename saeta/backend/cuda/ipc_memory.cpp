#include "saeta/backend/cuda/ipc_memory.hpp"

#include "saeta/backend/cuda/driver.hpp"

#include <cstring>
#include <utility>

namespace saeta::cuda {
namespace {

constexpr std::byte ipc_mark{1}; ///< follows the handle in a name

} // namespace

bool has_ipc_handle(const void* base) {
  unsigned capable = 0;
  check(driver().pointer_get_attribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                       reinterpret_cast<CUdeviceptr>(base)),
        "cuPointerGetAttribute", ": ", base);
  return capable != 0;
}

allocation_name ipc_name_of(const void* base) {
  cudaIpcMemHandle_t handle{};
  check(cudaIpcGetMemHandle(&handle, const_cast<void*>(base)), "cudaIpcGetMemHandle", ": ", base);
  allocation_name name{};
  static_assert(sizeof handle < sizeof name);
  std::memcpy(name.data(), &handle, sizeof handle);
  name[sizeof handle] = ipc_mark;
  return name;
}

bool is_ipc_name(const allocation_name& name) noexcept {
  return name[sizeof(cudaIpcMemHandle_t)] == ipc_mark;
}

void* opened_ipc_memory::open(const allocation_name& name) {
  cudaIpcMemHandle_t handle{};
  std::memcpy(&handle, name.data(), sizeof handle);
  void* pointer = nullptr;
  check(cudaIpcOpenMemHandle(&pointer, handle, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle");
  const std::lock_guard lock(mutex_);
  try {
    opened_.insert(pointer);
  } catch (...) {
    static_cast<void>(check_or_report(cudaIpcCloseMemHandle(pointer), "cudaIpcCloseMemHandle"));
    throw;
  }
  return pointer;
}

bool opened_ipc_memory::contains(void* pointer) const noexcept {
  const std::lock_guard lock(mutex_);
  return opened_.contains(pointer);
}

cudaError_t opened_ipc_memory::close(void* pointer) noexcept {
  // Forgotten before it is closed: another thread may then open memory at the same address.
  std::unique_lock lock(mutex_);
  auto known = opened_.extract(pointer);
  lock.unlock();
  const cudaError_t status = cudaIpcCloseMemHandle(pointer);
  if (status != cudaSuccess) {
    lock.lock();
    opened_.insert(std::move(known));
  }
  return status;
}

} // namespace saeta::cuda
