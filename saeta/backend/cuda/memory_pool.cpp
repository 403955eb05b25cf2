#include "saeta/backend/cuda/memory_pool.hpp"

#include "saeta/backend/cuda/driver.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

namespace saeta::cuda {

namespace {

int attribute(cudaDeviceAttr which, std::int32_t ordinal) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, ordinal), "cudaDeviceGetAttribute");
  return value;
}

} // namespace

memory_pool::memory_pool(std::int32_t ordinal, bool exportable) : ordinal_(ordinal) {
  const bool supported = attribute(cudaDevAttrMemoryPoolsSupported, ordinal) != 0;
  if (exportable && (!supported || (attribute(cudaDevAttrMemoryPoolSupportedHandleTypes, ordinal) &
                                    cudaMemHandleTypePosixFileDescriptor) == 0)) {
    throw error(errc::unsupported,
                concat("cuda:", ordinal, " has no memory pools that can be shared by file descriptors"));
  }
  if (!supported) {
    return;
  }
  cudaMemPoolProps properties{};
  properties.handleTypes = exportable ? cudaMemHandleTypePosixFileDescriptor : cudaMemHandleTypeNone;
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = ordinal;
  check(cudaMemPoolCreate(&pool_, &properties), "cudaMemPoolCreate", " on cuda:", ordinal);
  // By default a pool gives all unused memory back at every synchronization and must allocate it again.
  try {
    set_threshold(std::numeric_limits<std::uint64_t>::max());
    if (exportable) {
      share();
    }
  } catch (...) {
    static_cast<void>(check_or_report(cudaMemPoolDestroy(pool_), "cudaMemPoolDestroy"));
    throw;
  }
}

memory_pool::~memory_pool() {
  if (shared_ >= 0) {
    ::close(shared_);
  }
  if (pool_ != nullptr) {
    static_cast<void>(check_or_report(cudaMemPoolDestroy(pool_), "cudaMemPoolDestroy"));
  }
}

void* memory_pool::allocate(std::size_t bytes, cudaStream_t stream) {
  if (pool_ == nullptr) {
    throw error(errc::unsupported, concat("cuda:", ordinal_, " has no stream-ordered memory pools"));
  }
  void* pointer = nullptr;
  check(cudaMallocFromPoolAsync(&pointer, bytes, pool_, stream), "cudaMallocFromPoolAsync", ": ", bytes,
        " bytes (", human_bytes(bytes), ") on cuda:", ordinal_);
  return pointer;
}

std::size_t memory_pool::trim(std::size_t keep) {
  if (pool_ == nullptr) {
    return 0;
  }
  const std::uint64_t before = reserved_bytes();
  if (keep >= before) {
    return 0; // the driver treats a number above the pool's size as 0
  }
  check(cudaMemPoolTrimTo(pool_, keep), "cudaMemPoolTrimTo", ": keeping ", keep, " of ", before,
        " bytes on cuda:", ordinal_);
  const std::uint64_t after = reserved_bytes();
  return after < before ? before - after : 0; // another thread may have made the pool grow
}

void memory_pool::set_threshold(std::uint64_t bytes) {
  if (pool_ != nullptr) {
    check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &bytes), "cudaMemPoolSetAttribute",
          ": release threshold on cuda:", ordinal_);
  }
}

void memory_pool::admit(std::int32_t ordinal) {
  if (pool_ == nullptr) {
    return;
  }
  set_pool_access(pool_, ordinal, concat("cuda:", ordinal_));
}

void memory_pool::share() {
  check(cudaMemPoolExportToShareableHandle(&shared_, pool_, cudaMemHandleTypePosixFileDescriptor, 0),
        "cudaMemPoolExportToShareableHandle", ": the pool of cuda:", ordinal_);
}

int memory_pool::descriptor() const {
  const int result = ::fcntl(shared_, F_DUPFD_CLOEXEC, 0);
  if (result < 0) {
    throw error(errc::device, concat("the descriptor of the pool of cuda:", ordinal_,
                                     " can't be copied: ", std::generic_category().message(errno)));
  }
  return result;
}

allocation_name memory_pool::name_of(const void* base) {
  const std::lock_guard lock(names_mutex_);
  if (const auto known = names_.find(base); known != names_.end()) {
    return known->second;
  }
  cudaMemPoolPtrExportData exported{};
  check(cudaMemPoolExportPointer(&exported, const_cast<void*>(base)), "cudaMemPoolExportPointer", ": ", base);
  allocation_name name{};
  static_assert(sizeof exported < sizeof name);
  std::memcpy(name.data(), &exported, sizeof exported);
  names_.emplace(base, name);
  return name;
}

void memory_pool::forget_name(const void* base) noexcept {
  const std::lock_guard lock(names_mutex_);
  names_.erase(base);
}

std::uint64_t memory_pool::reserved_bytes() const {
  if (pool_ == nullptr) {
    return 0;
  }
  std::uint64_t bytes = 0;
  check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &bytes), "cudaMemPoolGetAttribute");
  return bytes;
}

void set_pool_access(cudaMemPool_t pool, std::int32_t ordinal, const std::string& whose) {
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = ordinal;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  check(cudaMemPoolSetAccess(pool, &access, 1), "cudaMemPoolSetAccess", ": cuda:", ordinal,
        " to the pool of ", whose);
}

cudaMemPool_t imported_pools::add(int descriptor) {
  cudaMemPool_t pool = nullptr;
  // The pointer argument takes the descriptor's number itself.
  check(cudaMemPoolImportFromShareableHandle(&pool,
                                             reinterpret_cast<void*>(static_cast<std::uintptr_t>(descriptor)),
                                             cudaMemHandleTypePosixFileDescriptor, 0),
        "cudaMemPoolImportFromShareableHandle", " on cuda:", admitted_.front());
  try {
    const std::lock_guard lock(mutex_);
    for (const std::int32_t importer : admitted_) {
      set_pool_access(pool, importer, "another process");
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
  for (const cudaMemPool_t pool : pools_) {
    set_pool_access(pool, ordinal, "another process");
  }
  admitted_.push_back(ordinal);
}

} // namespace saeta::cuda
