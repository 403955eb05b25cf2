// The contract between Saeta and a device: the only seam that a backend implements.
//
// @code
// const std::shared_ptr<backend> device = ctx->device_backend();
// const saeta::stream own(device);
// void* const memory = device->allocate_async(4096, own.native_handle());
// device->fill(memory, 0, 4096, own.native_handle());                 // queued behind the allocation
// if (!device->deallocate_async(memory, 4096, own.native_handle())) { // queued behind the fill
//   std::cerr << "the driver has kept 4096 bytes\n";
// }
// @endcode
//
// What      Streams, events, memory, copies, fills and kernels of one device. A method exists here only when
//           every backend implements it for real.
// Owner     Held by shared_ptr. Objects that a method creates are returned to the same backend.
// Order     Calls that take a stream queue work and return. Memory of `allocate_async` may be used on its
//           stream at once, and on another stream after an event recorded there. `host` runs everything
//           inline, so its events are always complete.
// Thread    Every method may be called from any thread and leaves the caller's current device as it was.
// Failure   error device (with the driver's name and text of its code), out_of_memory for allocations. A
//           failure changes nothing. error device_lost if the driver says that the device's context is broken
//           for good: queued work never finishes, and every later call fails in the same way. Any other error
//           may be temporary. The `noexcept` methods report instead (saeta/base/report.hpp).
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/device/device_id.hpp"
#include "saeta/device/handles.hpp"
#include "saeta/device/kernels.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace SAETA_EXPORT saeta {

struct device_properties {
  std::string name;              ///< "NVIDIA H200", or the CPU's model name
  std::uint64_t total_bytes = 0; ///< memory of the device
  /// Free bytes of the whole device at the call. Empty if they can't be known without using the device.
  std::optional<std::uint64_t> free_bytes;
  std::string architecture;         ///< "sm_90", "x86_64"
  std::string driver;               ///< driver version, empty on host
  std::int32_t multiprocessors = 0; ///< or CPU threads, on the host
  /// The same in every process of the machine, unlike the ordinal. Zeros on the host.
  std::array<std::uint8_t, 16> uuid{};
  /// Bytes of the largest allocation of an exportable pool that another process can open.
  std::uint64_t largest_pool_export = ~std::uint64_t{0};
};

enum class copy_kind { host_to_device, device_to_host, device_to_device, host_to_host };

/// The kind of a copy. Managed memory counts as device memory, wherever its pages are.
[[nodiscard]] constexpr copy_kind copy_between(memory_kind source, memory_kind target) noexcept {
  const auto of_device = [](memory_kind side) {
    return side == memory_kind::device || side == memory_kind::managed;
  };
  if (of_device(source)) {
    return of_device(target) ? copy_kind::device_to_device : copy_kind::device_to_host;
  }
  return of_device(target) ? copy_kind::host_to_device : copy_kind::host_to_host;
}

/// One of several copies. `bytes` is more than 0.
struct copy_range {
  void* target = nullptr;
  const void* source = nullptr;
  std::size_t bytes = 0;
};

/// The outcome of recording an event over all work of the context.
enum class fence_outcome {
  recorded,
  refused, ///< a stream of the context is capturing a graph; try again later
};

class backend : public std::enable_shared_from_this<backend> {
public:
  backend() = default;
  backend(const backend&) = delete;
  backend& operator=(const backend&) = delete;
  virtual ~backend() = default;

  /// A number that no other backend object of this process ever has. With it, ids of streams are unique.
  [[nodiscard]] std::uint64_t serial() const noexcept { return serial_; }
  [[nodiscard]] virtual device_id device() const noexcept = 0;
  [[nodiscard]] virtual device_properties properties() const = 0;
  [[nodiscard]] virtual const kernel_table& kernels() const noexcept = 0;

  /// Creates a stream that does not synchronise with the legacy default stream.
  [[nodiscard]] virtual stream_handle create_stream() = 0;
  /// Pending work of the stream still finishes.
  virtual void destroy_stream(stream_handle stream) noexcept = 0;
  /// A number that no other stream of this device ever has in this process, even when the value of a handle
  /// is reused. Streams of two devices may have the same number. For the per-thread default stream, the
  /// number of the calling thread's stream. For a stream that captures a graph, a `new_capture_id`: captured
  /// work is not ordered with anything outside of the graph, not even with earlier work of the stream.
  virtual std::uint64_t stream_id(stream_handle stream) = 0;
  virtual void synchronize_stream(stream_handle stream) = 0;
  /// True when all work queued so far has finished.
  virtual bool stream_idle(stream_handle stream) = 0;
  /// True while the stream captures a graph. Work that is queued on it then does not run, and it can't wait
  /// for anything outside of the capture. For the legacy default stream: true while a stream that
  /// synchronises with it captures. The query does not disturb the capture.
  virtual bool capturing(stream_handle stream) = 0;

  /// Creates an event without timing. Until it is recorded, it counts as complete.
  [[nodiscard]] virtual event_handle create_event() = 0;
  virtual void destroy_event(event_handle event) noexcept = 0;
  virtual void record_event(event_handle event, stream_handle stream) = 0;
  /// Records all work of the context at this moment, on every stream, including those of other libraries.
  virtual fence_outcome record_context(event_handle event) = 0;
  virtual void wait_event(stream_handle stream, event_handle event) = 0;
  virtual bool event_complete(event_handle event) = 0;
  /// Blocks the calling thread without spinning.
  virtual void synchronize_event(event_handle event) = 0;

  /// Allocates with one driver call, aligned to at least 256 bytes (64 on host). `bytes` > 0.
  [[nodiscard]] virtual void* allocate(std::size_t bytes, std::size_t alignment) = 0;
  /// May wait for the device. Returns false if the driver refused; the memory is still allocated then.
  [[nodiscard]] virtual bool deallocate(void* pointer, std::size_t bytes, std::size_t alignment) noexcept = 0;
  /// Memory from the driver's stream-ordered pool, aligned to at least 256 bytes (64 on host). `bytes` > 0.
  [[nodiscard]] virtual void* allocate_async(std::size_t bytes, stream_handle stream) = 0;
  [[nodiscard]] virtual bool deallocate_async(void* pointer, std::size_t bytes,
                                              stream_handle stream) noexcept = 0;
  /// Returns unused memory of the stream-ordered pool to the device, but keeps at least `keep` bytes in the
  /// pool. Returns how many bytes went back.
  virtual std::size_t trim_pool(std::size_t keep) = 0;
  /// Bytes that the stream-ordered pool has taken from the device, used or not; 0 on the host.
  [[nodiscard]] virtual std::uint64_t pool_bytes() const = 0;
  /// Sets how many bytes the stream-ordered pool keeps. When the host waits for the device, unused memory
  /// beyond them returns to the device. A new pool keeps everything. No-op on the host, which has none.
  virtual void set_pool_threshold(std::uint64_t bytes) = 0;
  /// Another device object of the same device, with a stream-ordered pool of its own.
  /// @throws error unsupported on the host.
  [[nodiscard]] virtual std::shared_ptr<backend> another() = 0;
  /// Makes the memory of the stream-ordered pool shareable with other processes (CUDA: through POSIX file
  /// descriptors). Call this before anything is allocated from the pool. Later calls do nothing. Settings of
  /// the pool stay.
  /// @throws error busy if the pool has memory, unsupported if there is no such pool (always on the host).
  virtual void make_pool_exportable() = 0;
  [[nodiscard]] virtual bool pool_exportable() const = 0;
  /// Returns a descriptor by which another process can import the exportable pool. The caller closes it.
  /// @throws error unsupported if the pool is not exportable.
  [[nodiscard]] virtual int export_pool() = 0;
  /// Names an allocation of the exportable pool, or of `allocate`. It must not be freed while another process
  /// has it open, because its memory would be reused.
  /// @param base  as the allocation returned it. @throws error unsupported if the pool is not exportable.
  [[nodiscard]] virtual allocation_name export_allocation(const void* base) = 0;
  /// Imports the pool of another process by its descriptor, which the caller keeps. Work of this device may
  /// then access the memory of the pool.
  /// @throws error unsupported on the host.
  [[nodiscard]] virtual pool_handle import_pool(int descriptor) = 0;
  /// Open allocations stay valid.
  virtual void release_pool(pool_handle imported) noexcept = 0;
  /// Maps an allocation of the imported pool, or of `allocate` of its device object, and returns its first
  /// byte. An open one can't be opened again.
  [[nodiscard]] virtual void* open_allocation(pool_handle imported, const allocation_name& name) = 0;
  /// Unmaps the allocation in stream order; one of `allocate` at once, after the host has waited for the
  /// stream. After that, the exporter may free the memory. Returns false if the driver refused.
  [[nodiscard]] virtual bool close_allocation(void* pointer, stream_handle stream) noexcept = 0;
  /// Allocates page-locked host memory that the device accesses at link speed; ordinary memory on host.
  [[nodiscard]] virtual void* allocate_pinned(std::size_t bytes) = 0;
  [[nodiscard]] virtual bool deallocate_pinned(void* pointer, std::size_t bytes) noexcept = 0;

  /// The kind of the memory at an address, according to the driver, whichever library allocated it. Memory
  /// that the driver does not know is host memory.
  [[nodiscard]] virtual memory_kind kind_of(const void* pointer) const = 0;

  /// True if hardware and driver let work of this device access memory of the device of `other`. Always true
  /// on one device, and never between backends of different kinds. `copy` needs no such access.
  [[nodiscard]] virtual bool can_access_peer(const backend& other) const = 0;
  /// Lets work that is queued on streams of this device from now on, including kernels and fills, access
  /// memory of the device of `other`: allocations of any library, and the stream-ordered pool of the object
  /// `other`. At least this direction is enabled, until the process ends. Enabling it again does nothing.
  /// @throws error unsupported naming both devices if `can_access_peer(other)` is false.
  virtual void enable_peer_access(backend& other) = 0;

  /// Queues a copy. With pageable host memory the call may wait; it has been read when the call returns.
  virtual void copy(void* target, const void* source, std::size_t bytes, copy_kind kind,
                    stream_handle stream) = 0;
  /// Queues copies of page-locked or device memory, which may run in any order. Uses one driver call if the
  /// driver has one, because copies queued one by one start 4 us apart on an H100.
  virtual void copy_all(std::span<const copy_range> ranges, copy_kind kind, stream_handle stream) {
    for (const copy_range& range : ranges) {
      copy(range.target, range.source, range.bytes, kind, stream);
    }
  }
  virtual void fill(void* target, std::uint8_t value, std::size_t bytes, stream_handle stream) = 0;
  /// Queues a write of one word of page-locked memory of this device. A thread that reads the value
  /// (std::atomic_ref, acquire) sees all earlier work of the stream as done, without a driver call. Sixteen
  /// threads that query events wait for each other in the driver, 13 us per query on an H100.
  /// @param target  aligned to 4 bytes
  virtual void write_word(std::uint32_t* target, std::uint32_t value, stream_handle stream) = 0;

private:
  static std::uint64_t next_serial() noexcept;

  const std::uint64_t serial_ = next_serial();
};

} // namespace saeta
