#include "saeta/backend/cuda/cuda_backend.hpp"

#include "saeta/backend/cuda/context.hpp"
#include "saeta/backend/cuda/driver.hpp"
#include "saeta/backend/cuda/ipc_memory.hpp"
#include "saeta/backend/cuda/kernels/kernels.hpp"
#include "saeta/backend/cuda/kernels/modules.hpp"
#include "saeta/backend/cuda/memory_pool.hpp"
#include "saeta/backend/cuda/version.hpp"
#include "saeta/backend/cuda/waiters.hpp"
#include "saeta/base/checked.hpp"
#include "saeta/base/report.hpp"

#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace saeta {
namespace {

using cuda::active_context;
using cuda::check;
using cuda::check_or_report;
using cuda::context_scope;

/// The least alignment of every CUDA allocation.
constexpr std::size_t driver_alignment = 256;

cudaStream_t native(stream_handle stream) { return reinterpret_cast<cudaStream_t>(stream); }
cudaEvent_t native(event_handle event) { return reinterpret_cast<cudaEvent_t>(event); }
cudaMemPool_t native(pool_handle pool) { return reinterpret_cast<cudaMemPool_t>(pool); }

cudaMemcpyKind native(copy_kind kind) {
  switch (kind) {
  case copy_kind::host_to_device:
    return cudaMemcpyHostToDevice;
  case copy_kind::device_to_host:
    return cudaMemcpyDeviceToHost;
  case copy_kind::device_to_device:
    return cudaMemcpyDeviceToDevice;
  case copy_kind::host_to_host:
    return cudaMemcpyHostToHost;
  }
  throw error(errc::invalid_argument,
              concat("copy kind ", static_cast<int>(kind), " is not one of the four kinds"));
}

/// True for every status with which the driver refuses a call because a stream captures a graph.
bool is_refused_for_capture(CUresult status) {
  return status >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && status <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

/// "Not ready" is a normal result, but the runtime records it as the thread's last error.
bool finished(cudaError_t status, const cuda::call_site& call) {
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
    return false;
  }
  check(status, call);
  return true;
}

/// Whether a stream captures a graph. The legacy default stream counts as capturing while a blocking stream
/// captures.
bool is_capturing(CUcontext context, cudaStream_t stream) {
  const cuda::current_context current(context);
  check(current.status(), "cuCtxPushCurrent");
  CUstreamCaptureStatus status{};
  const CUresult seen = cuda::driver().stream_is_capturing(stream, &status);
  if (seen == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
    return true;
  }
  check(seen, "cuStreamIsCapturing");
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

class cuda_backend final : public backend {
public:
  explicit cuda_backend(std::int32_t ordinal) : ordinal_(ordinal), context_(cuda::primary_context(ordinal)) {
    const active_context active(context_);
    cuda::load_kernels();
    int reads_pageable = 0;
    check(cudaDeviceGetAttribute(&reads_pageable, cudaDevAttrPageableMemoryAccess, ordinal),
          "cudaDeviceGetAttribute");
    reads_pageable_ = reads_pageable != 0;
    own_pool_.emplace(ordinal);
    pool_ = &*own_pool_;
    waiters_.emplace();
  }
  ~cuda_backend() override {
    const context_scope scope(context_);
    waiters_.reset();
    exportable_pool_.reset();
    own_pool_.reset();
  }

  [[nodiscard]] device_id device() const noexcept override { return {device_kind::cuda, ordinal_}; }
  [[nodiscard]] device_properties properties() const override;
  [[nodiscard]] const kernel_table& kernels() const noexcept override { return cuda::cuda_kernels(); }

  stream_handle create_stream() override {
    const active_context active(context_);
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return stream_handle{reinterpret_cast<std::uintptr_t>(stream)};
  }
  void destroy_stream(stream_handle stream) noexcept override {
    static_cast<void>(attempt("cudaStreamDestroy", [&] { return cudaStreamDestroy(native(stream)); }));
  }
  std::uint64_t stream_id(stream_handle stream) override {
    // The driver does not tell the id of a capturing stream, and asking for it would invalidate the capture.
    if (is_capturing(context_, native(stream))) {
      return new_capture_id();
    }
    if (stream != legacy_stream) {
      return id_of(stream, context_);
    }
    // Most libraries use the legacy stream. Its id does not change while the context exists.
    std::uint64_t known = legacy_id_.load(std::memory_order_relaxed);
    if (known == 0) {
      known = id_of(stream, context_);
      legacy_id_.store(known, std::memory_order_relaxed);
    }
    return known;
  }
  void synchronize_stream(stream_handle stream) override {
    const active_context active(context_);
    check(cudaStreamSynchronize(native(stream)), "cudaStreamSynchronize");
  }
  bool stream_idle(stream_handle stream) override {
    const active_context active(context_);
    return finished(cudaStreamQuery(native(stream)), "cudaStreamQuery");
  }
  bool capturing(stream_handle stream) override { return is_capturing(context_, native(stream)); }

  event_handle create_event() override {
    const active_context active(context_);
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return event_handle{reinterpret_cast<std::uintptr_t>(event)};
  }
  void destroy_event(event_handle event) noexcept override {
    static_cast<void>(attempt("cudaEventDestroy", [&] { return cudaEventDestroy(native(event)); }));
  }
  void record_event(event_handle event, stream_handle stream) override {
    const active_context active(context_);
    check(cudaEventRecord(native(event), native(stream)), "cudaEventRecord");
  }
  fence_outcome record_context(event_handle event) override;
  void wait_event(stream_handle stream, event_handle event) override {
    const active_context active(context_);
    check(cudaStreamWaitEvent(native(stream), native(event), 0), "cudaStreamWaitEvent");
  }
  bool event_complete(event_handle event) override {
    const active_context active(context_);
    return finished(cudaEventQuery(native(event)), "cudaEventQuery");
  }
  void synchronize_event(event_handle event) override {
    const active_context active(context_);
    if (!finished(cudaEventQuery(native(event)), "cudaEventQuery")) {
      waiters_->wait(native(event));
    }
  }

  void* allocate(std::size_t bytes, std::size_t alignment) override;
  [[nodiscard]] bool deallocate(void* pointer, std::size_t bytes, std::size_t alignment) noexcept override;
  void* allocate_async(std::size_t bytes, stream_handle stream) override {
    const active_context active(context_);
    if (is_capturing(context_, native(stream))) {
      throw error(errc::device, concat("can't allocate on a stream of ", to_string(device()),
                                       " that captures a graph: the graph would own the memory"));
    }
    return pool().allocate(bytes, native(stream));
  }
  [[nodiscard]] bool deallocate_async(void* pointer, std::size_t, stream_handle stream) noexcept override {
    pool().forget_name(pointer);
    return attempt("cudaFreeAsync", [&] { return cudaFreeAsync(pointer, native(stream)); });
  }
  std::size_t trim_pool(std::size_t keep) override {
    const active_context active(context_);
    return pool().trim(keep);
  }
  [[nodiscard]] std::uint64_t pool_bytes() const override {
    const active_context active(context_);
    return pool().reserved_bytes();
  }
  void set_pool_threshold(std::uint64_t bytes) override {
    const active_context active(context_);
    const std::scoped_lock lock(pool_mutex_);
    pool().set_threshold(bytes);
    pool_threshold_ = bytes;
  }
  [[nodiscard]] std::shared_ptr<backend> another() override { return make_cuda_backend(ordinal_); }
  void make_pool_exportable() override;
  [[nodiscard]] bool pool_exportable() const override { return &pool() != &*own_pool_; }
  int export_pool() override {
    require_exportable();
    const active_context active(context_);
    return pool().descriptor();
  }
  allocation_name export_allocation(const void* base) override {
    require_exportable();
    const active_context active(context_);
    return cuda::has_ipc_handle(base) ? cuda::ipc_name_of(base) : pool().name_of(base);
  }
  pool_handle import_pool(int descriptor) override {
    const active_context active(context_);
    return pool_handle{reinterpret_cast<std::uintptr_t>(imported_pools_.add(descriptor))};
  }
  void release_pool(pool_handle imported) noexcept override {
    static_cast<void>(
        attempt("cudaMemPoolDestroy", [&] { return imported_pools_.release(native(imported)); }));
  }
  void* open_allocation(pool_handle imported, const allocation_name& name) override {
    const active_context active(context_);
    if (cuda::is_ipc_name(name)) {
      return opened_.open(name);
    }
    cudaMemPoolPtrExportData exported{};
    std::memcpy(&exported, name.data(), sizeof exported);
    void* pointer = nullptr;
    check(cudaMemPoolImportPointer(&pointer, native(imported), &exported), "cudaMemPoolImportPointer",
          " on cuda:", ordinal_);
    return pointer;
  }
  [[nodiscard]] bool close_allocation(void* pointer, stream_handle stream) noexcept override {
    if (opened_.contains(pointer)) {
      return attempt("cudaStreamSynchronize", [&] { return cudaStreamSynchronize(native(stream)); }) &&
             attempt("cudaIpcCloseMemHandle", [&] { return opened_.close(pointer); });
    }
    return attempt("cudaFreeAsync", [&] { return cudaFreeAsync(pointer, native(stream)); });
  }
  void* allocate_pinned(std::size_t bytes) override {
    const active_context active(context_);
    void* pointer = nullptr;
    check(cudaHostAlloc(&pointer, bytes, cudaHostAllocPortable), "cudaHostAlloc", ": ", bytes, " bytes (",
          human_bytes(bytes), ")");
    return pointer;
  }
  [[nodiscard]] bool deallocate_pinned(void* pointer, std::size_t) noexcept override {
    return attempt("cudaFreeHost", [&] { return cudaFreeHost(pointer); });
  }

  [[nodiscard]] memory_kind kind_of(const void* pointer) const override;

  [[nodiscard]] bool can_access_peer(const backend& other) const override;
  void enable_peer_access(backend& other) override;

  void copy(void* target, const void* source, std::size_t bytes, copy_kind kind,
            stream_handle stream) override {
    if (bytes == 0) {
      return;
    }
    const active_context active(context_);
    if (kind == copy_kind::host_to_device && reads_pageable_ && kind_of(source) == memory_kind::host &&
        !is_capturing(context_, native(stream))) {
      return copy_during_call(target, source, bytes, stream);
    }
    check(cudaMemcpyAsync(target, source, bytes, native(kind), native(stream)), "cudaMemcpyAsync", ": ",
          bytes, " bytes");
  }
  void copy_all(std::span<const copy_range> ranges, copy_kind kind, stream_handle stream) override {
    if (ranges.size() <= 1) {
      return backend::copy_all(ranges, kind, stream);
    }
    std::vector<void*> targets;
    std::vector<const void*> sources;
    std::vector<std::size_t> sizes;
    for (const copy_range& range : ranges) {
      targets.push_back(range.target);
      sources.push_back(range.source);
      sizes.push_back(range.bytes);
    }
    cudaMemcpyAttributes alike{};
    alike.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    std::size_t first_alike = 0;
    const active_context active(context_);
    check(cudaMemcpyBatchAsync(targets.data(), sources.data(), sizes.data(), sizes.size(), &alike,
                               &first_alike, 1, native(stream)),
          "cudaMemcpyBatchAsync", ": ", sizes.size(), " copies");
  }
  void fill(void* target, std::uint8_t value, std::size_t bytes, stream_handle stream) override {
    if (bytes == 0) {
      return;
    }
    const active_context active(context_);
    check(cudaMemsetAsync(target, value, bytes, native(stream)), "cudaMemsetAsync", ": ", bytes, " bytes");
  }
  void write_word(std::uint32_t* target, std::uint32_t value, stream_handle stream) override {
    const active_context active(context_);
    check(cuda::driver().stream_write_value32(native(stream), reinterpret_cast<CUdeviceptr>(target), value,
                                              CU_STREAM_WRITE_VALUE_DEFAULT),
          "cuStreamWriteValue32");
  }

private:
  /// Runs a call that frees a resource, and reports a failure. At the end of the process nothing is left to
  /// free.
  template <class Call>
  [[nodiscard]] bool attempt(const char* name, Call call) const noexcept {
    const context_scope scope(context_);
    if (scope.status() == CUDA_SUCCESS) {
      return check_or_report(call(), name);
    }
    if (cuda::shutting_down(scope.status())) {
      return true;
    }
    report(name, "the device's context can't be made current");
    return false;
  }

  /// Copies pageable memory that the device can read by itself (GH200, HMM). There cudaMemcpyAsync may read
  /// it after the call, when the caller's memory can be gone.
  static void copy_during_call(void* target, const void* source, std::size_t bytes, stream_handle stream) {
    if (stream == legacy_stream) { // batches are refused there
      check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyHostToDevice, native(stream)), "cudaMemcpyAsync",
            ": ", bytes, " bytes");
      check(cudaStreamSynchronize(native(stream)), "cudaStreamSynchronize");
      return;
    }
    cudaMemcpyAttributes during_call{};
    during_call.srcAccessOrder = cudaMemcpySrcAccessOrderDuringApiCall;
    std::size_t first = 0;
    check(cudaMemcpyBatchAsync(&target, &source, &bytes, 1, &during_call, &first, 1, native(stream)),
          "cudaMemcpyBatchAsync", ": ", bytes, " bytes");
  }

  [[nodiscard]] cuda::memory_pool& pool() const noexcept { return *pool_.load(std::memory_order_acquire); }

  void require_exportable() const {
    if (!pool_exportable()) {
      throw error(
          errc::unsupported,
          concat("the pool of cuda:", ordinal_,
                 " is not exportable: make it exportable before the first allocation (stack_options)"));
    }
  }

  /// Lets work of this device touch memory of the peer.
  void give_access(cuda_backend& peer);
  /// Lets work on another device touch memory of our pool and of imported pools.
  void admit(std::int32_t ordinal) {
    const std::scoped_lock lock(pool_mutex_);
    pool().admit(ordinal);
    imported_pools_.admit(ordinal);
    admitted_.push_back(ordinal);
  }

  void* allocate_plain(std::size_t bytes) const {
    void* pointer = nullptr;
    check(cudaMalloc(&pointer, bytes), "cudaMalloc", ": ", bytes, " bytes (", human_bytes(bytes),
          ") on cuda:", ordinal_);
    return pointer;
  }

  static std::uint64_t id_of(stream_handle stream, CUcontext context) {
    const active_context active(context);
    unsigned long long id = 0;
    check(cuda::driver().stream_get_id(native(stream), &id), "cuStreamGetId");
    // We use 0 for "no stream", but the driver does not promise that an id is never 0.
    return id == 0 ? first_capture_id - 1 : id;
  }

  std::int32_t ordinal_;
  CUcontext context_;
  bool reads_pageable_ = false;             ///< work of the device can read any memory of the host
  std::atomic<std::uint64_t> legacy_id_{0}; ///< 0: not asked for yet
  std::optional<cuda::memory_pool> own_pool_;
  std::optional<cuda::memory_pool> exportable_pool_; ///< replaces `own_pool_` once it exists
  std::atomic<cuda::memory_pool*> pool_{nullptr};
  std::mutex pool_mutex_; ///< guards the settings of the pool
  std::optional<std::uint64_t> pool_threshold_;
  std::vector<std::int32_t> admitted_; ///< devices whose work may touch the pool
  cuda::imported_pools imported_pools_{ordinal_};
  cuda::opened_ipc_memory opened_;
  std::optional<cuda::waiters> waiters_;
  std::mutex mutex_;
  std::unordered_map<void*, void*> bases_; ///< for each address that we aligned, the base of its allocation
};

device_properties cuda_backend::properties() const { return describe_cuda_device(ordinal_); }

fence_outcome cuda_backend::record_context(event_handle event) {
  const active_context active(context_);
  // The driver invalidates a capture that is active. A capture on a blocking stream can be detected
  // beforehand without harm.
  if (is_capturing(context_, cudaStreamLegacy)) {
    return fence_outcome::refused;
  }
  const CUresult status = cuda::driver().context_record_event(context_, native(event));
  if (is_refused_for_capture(status)) {
    return fence_outcome::refused;
  }
  check(status, "cuCtxRecordEvent");
  return fence_outcome::recorded;
}

void cuda_backend::make_pool_exportable() {
  const active_context active(context_);
  const std::scoped_lock lock(pool_mutex_);
  if (exportable_pool_) {
    return;
  }
  if (const std::uint64_t bytes = pool().reserved_bytes(); bytes != 0) {
    throw error(errc::busy, concat("the pool of cuda:", ordinal_, " already has ", bytes,
                                   " bytes: make it exportable before the first allocation"));
  }
  exportable_pool_.emplace(ordinal_, true);
  try {
    if (pool_threshold_) {
      exportable_pool_->set_threshold(*pool_threshold_);
    }
    for (const std::int32_t peer : admitted_) {
      exportable_pool_->admit(peer);
    }
  } catch (...) {
    exportable_pool_.reset();
    throw;
  }
  pool_.store(&*exportable_pool_, std::memory_order_release);
}

memory_kind cuda_backend::kind_of(const void* pointer) const {
  if (pointer == nullptr) {
    return memory_kind::host;
  }
  // The driver's call needs no current context. It is used because every import of external memory pays for
  // this query.
  unsigned type = 0; // stays 0 for memory that CUDA does not know
  unsigned managed = 0;
  std::array attributes{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
  std::array<void*, 2> answers{&type, &managed};
  check(cuda::driver().pointer_get_attributes(static_cast<unsigned>(attributes.size()), attributes.data(),
                                              answers.data(), reinterpret_cast<CUdeviceptr>(pointer)),
        "cuPointerGetAttributes", ": ", pointer);
  if (managed != 0) {
    return memory_kind::managed;
  }
  switch (type) {
  case CU_MEMORYTYPE_DEVICE:
    return memory_kind::device;
  case CU_MEMORYTYPE_HOST:
    return memory_kind::pinned;
  default:
    return memory_kind::host;
  }
}

bool cuda_backend::can_access_peer(const backend& other) const {
  const auto* const peer = dynamic_cast<const cuda_backend*>(&other);
  if (peer == nullptr || peer->ordinal_ == ordinal_) {
    return peer != nullptr;
  }
  const active_context active(context_);
  int possible = 0;
  check(cudaDeviceCanAccessPeer(&possible, ordinal_, peer->ordinal_), "cudaDeviceCanAccessPeer",
        ": cuda:", ordinal_, " to cuda:", peer->ordinal_);
  return possible != 0;
}

void cuda_backend::enable_peer_access(backend& other) {
  if (!can_access_peer(other)) {
    throw error(errc::unsupported,
                concat(to_string(device()), " can't access the memory of ", to_string(other.device()),
                       ": CUDA offers no peer access between them"));
  }
  auto& peer = dynamic_cast<cuda_backend&>(other);
  if (peer.ordinal_ == ordinal_) {
    return;
  }
  give_access(peer);
  // The device that owns memory opened by CUDA IPC carries out the copy, whatever the stream. If it can't
  // access the target, driver 580.159 stages the copy through the host.
  if (peer.can_access_peer(*this)) {
    peer.give_access(*this);
  }
}

void cuda_backend::give_access(cuda_backend& peer) {
  const active_context active(context_);
  const cudaError_t status = cudaDeviceEnablePeerAccess(peer.ordinal_, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) { // by Saeta or by another library
    static_cast<void>(cudaGetLastError());
  } else {
    check(status, "cudaDeviceEnablePeerAccess", ": cuda:", ordinal_, " to cuda:", peer.ordinal_);
  }
  peer.admit(ordinal_); // peer access covers memory of cudaMalloc; a pool needs its own setting
}

void* cuda_backend::allocate(std::size_t bytes, std::size_t alignment) {
  const active_context active(context_);
  if (alignment <= driver_alignment) {
    return allocate_plain(bytes);
  }
  const std::size_t room = checked_add(bytes, alignment - driver_alignment, "aligned allocation in bytes");
  void* const base = allocate_plain(room);
  const auto address = round_up(reinterpret_cast<std::uintptr_t>(base), std::uintptr_t{alignment});
  void* const aligned = reinterpret_cast<void*>(address);
  try {
    const std::scoped_lock lock(mutex_);
    bases_.emplace(aligned, base);
  } catch (...) {
    static_cast<void>(check_or_report(cudaFree(base), "cudaFree"));
    throw;
  }
  return aligned;
}

bool cuda_backend::deallocate(void* pointer, std::size_t, std::size_t alignment) noexcept {
  if (alignment <= driver_alignment) {
    return attempt("cudaFree", [&] { return cudaFree(pointer); });
  }
  // Removed before the call: once the memory is freed, another thread may get the same address.
  std::unique_lock lock(mutex_);
  auto base = bases_.extract(pointer);
  lock.unlock();
  if (base.empty()) {
    report("cudaFree", "this address was not allocated with this alignment");
    return false;
  }
  if (attempt("cudaFree", [&] { return cudaFree(base.mapped()); })) {
    return true;
  }
  lock.lock();
  bases_.insert(std::move(base));
  return false;
}

} // namespace

std::shared_ptr<backend> make_cuda_backend(std::int32_t ordinal) {
  const cuda_status status = probe_cuda();
  if (!status.usable) {
    throw error(errc::device, concat("cuda:", ordinal, " can't be used: ", status.reason));
  }
  if (ordinal < 0 || ordinal >= status.devices) {
    throw error(errc::device, concat("cuda:", ordinal, " is not a device: this process sees ", status.devices,
                                     " CUDA devices"));
  }
  return std::make_shared<cuda_backend>(ordinal);
}

std::uintptr_t cuda_driver_context(std::int32_t ordinal) {
  return reinterpret_cast<std::uintptr_t>(cuda::primary_context(ordinal));
}

} // namespace saeta
