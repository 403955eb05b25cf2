// The contract between Saeta and a device: the only seam that a backend implements.
//
// What      Streams, events, memory, copies, fills and kernels of one device. A method exists here only when every
//           backend implements it for real.
// Owner     Held by shared_ptr; whatever a method creates must be given back to the same backend.
// Order     Calls that take a stream queue work and return. `allocate_async` memory may be used on its stream at once,
//           on another stream after an event recorded there. `host` runs everything inline, so its events are always
//           complete.
// Thread    Every method may be called from any thread and leaves the caller's current device as it was.
// Failure   error device (with the driver's name and text of its code), out_of_memory for allocations. A failure
//           changes nothing. error device_lost when the driver says that the device's context is broken for good: work
//           that was queued never finishes and every later call fails in the same way; any other error may pass. The
//           `noexcept` methods report instead (saeta/base/report.hpp).
#pragma once

#include "saeta/device/device_id.hpp"
#include "saeta/device/handles.hpp"
#include "saeta/device/kernels.hpp"
#include "saeta/device/memory_kind.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace saeta {

struct device_properties {
  std::string name;              ///< "NVIDIA H200", or the CPU's model name
  std::uint64_t total_bytes = 0; ///< memory of the device
  /// Free at the moment of the call, in the whole device. Empty where it can't be known without using the device.
  std::optional<std::uint64_t> free_bytes;
  std::string architecture;         ///< "sm_90", "x86_64"
  std::string driver;               ///< driver version, empty on host
  std::int32_t multiprocessors = 0; ///< or CPU threads
  /// The same in every process of the machine, whatever number the device has there. Zeros on the host.
  std::array<std::uint8_t, 16> uuid{};
};

enum class copy_kind { host_to_device, device_to_host, device_to_device, host_to_host };

/// The copy between memory of two kinds. Managed memory counts as the device's, wherever its pages are.
[[nodiscard]] constexpr copy_kind copy_between(memory_kind source, memory_kind target) noexcept {
  const auto of_device = [](memory_kind side) {
    return side == memory_kind::device || side == memory_kind::managed;
  };
  if (of_device(source)) {
    return of_device(target) ? copy_kind::device_to_device : copy_kind::device_to_host;
  }
  return of_device(target) ? copy_kind::host_to_device : copy_kind::host_to_host;
}

/// The bytes of one of several copies; more than 0.
struct copy_range {
  void* target = nullptr;
  const void* source = nullptr;
  std::size_t bytes = 0;
};

/// What became of a request to record an event over all work of the context.
enum class fence_outcome {
  recorded,
  refused, ///< a stream of the context is capturing a graph: try again later
};

class backend : public std::enable_shared_from_this<backend> {
public:
  backend() = default;
  backend(const backend&) = delete;
  backend& operator=(const backend&) = delete;
  virtual ~backend() = default;

  /// A number that no other backend object of this process ever has: the ids of its streams are unique together with it.
  [[nodiscard]] std::uint64_t serial() const noexcept { return serial_; }
  [[nodiscard]] virtual device_id device() const noexcept = 0;
  [[nodiscard]] virtual device_properties properties() const = 0;
  [[nodiscard]] virtual const kernel_table& kernels() const noexcept = 0;

  /// A stream that does not synchronise with the legacy default stream.
  virtual stream_handle create_stream() = 0;
  /// Pending work of the stream still finishes.
  virtual void destroy_stream(stream_handle stream) noexcept = 0;
  /// A number that no other stream of this device ever has in this process, even when a handle's value is reused; streams
  /// of two devices may have the same one. For the per-thread default stream: the calling thread's. While the stream
  /// captures a graph: one of `new_capture_id`, since what is captured is ordered with nothing outside of the graph, not
  /// even with the stream's earlier work.
  virtual std::uint64_t stream_id(stream_handle stream) = 0;
  virtual void synchronize_stream(stream_handle stream) = 0;
  /// True when all work queued so far has finished.
  virtual bool stream_idle(stream_handle stream) = 0;
  /// True while the stream captures a graph: what is queued on it then does not run, and it can wait for nothing outside
  /// of the capture. Of the legacy default stream: while a stream that synchronises with it captures one. The capture is
  /// left unharmed.
  virtual bool capturing(stream_handle stream) = 0;

  /// An event without timing, not recorded: it counts as complete.
  virtual event_handle create_event() = 0;
  virtual void destroy_event(event_handle event) noexcept = 0;
  virtual void record_event(event_handle event, stream_handle stream) = 0;
  /// Records all work of the context at this moment: every stream, those of other libraries too.
  virtual fence_outcome record_context(event_handle event) = 0;
  virtual void wait_event(stream_handle stream, event_handle event) = 0;
  virtual bool event_complete(event_handle event) = 0;
  /// Blocks the calling thread without spinning.
  virtual void synchronize_event(event_handle event) = 0;

  /// One driver call; aligned to at least 256 bytes (64 on host). `bytes` > 0.
  virtual void* allocate(std::size_t bytes, std::size_t alignment) = 0;
  /// May wait for the device. False when the driver refused: the memory is still there.
  [[nodiscard]] virtual bool deallocate(void* pointer, std::size_t bytes, std::size_t alignment) noexcept = 0;
  /// From the driver's stream-ordered pool, aligned to at least 256 bytes (64 on host). `bytes` > 0.
  virtual void* allocate_async(std::size_t bytes, stream_handle stream) = 0;
  [[nodiscard]] virtual bool deallocate_async(void* pointer, std::size_t bytes,
                                              stream_handle stream) noexcept = 0;
  /// Gives unused memory of the stream-ordered pool back to the device, keeping at least `keep` bytes. Returns the
  /// bytes that went back.
  virtual std::size_t trim_pool(std::size_t keep) = 0;
  /// Bytes that the stream-ordered pool has taken from the device, used or not; 0 on the host.
  [[nodiscard]] virtual std::uint64_t pool_bytes() const = 0;
  /// How many bytes the stream-ordered pool holds on to: when the host waits for the device, unused memory beyond them goes
  /// back to it. A new pool holds on to everything. Nothing on the host, which has no such pool.
  virtual void set_pool_threshold(std::uint64_t bytes) = 0;
  /// From now on the stream-ordered pool is one whose memory can be shared with other processes (CUDA: with handles that are
  /// POSIX file descriptors). Before anything was taken from it; once it is, nothing changes. What was set for the pool stays.
  /// @throws error busy when the pool has memory, unsupported where there is no such pool: on the host, always.
  virtual void make_pool_exportable() = 0;
  [[nodiscard]] virtual bool pool_exportable() const = 0;
  /// A descriptor of the exportable pool, with which another process can import it. The caller closes it.
  /// @throws error unsupported when the pool is not exportable.
  [[nodiscard]] virtual int export_pool() = 0;
  /// The name of an allocation of the exportable pool. The allocation must not be freed while another process has it open:
  /// the pool would use its memory again.
  /// @param base  as `allocate_async` returned it. @throws error unsupported when the pool is not exportable.
  [[nodiscard]] virtual allocation_name export_allocation(const void* base) = 0;
  /// Imports the pool of another process by its descriptor, which stays the caller's. Work of this device may touch its memory.
  /// @throws error unsupported on the host.
  [[nodiscard]] virtual pool_handle import_pool(int descriptor) = 0;
  /// Allocations that are open stay valid.
  virtual void release_pool(pool_handle imported) noexcept = 0;
  /// Maps an allocation of the imported pool: its first byte. One that is open already can't be opened again.
  [[nodiscard]] virtual void* open_allocation(pool_handle imported, const allocation_name& name) = 0;
  /// Unmaps it in stream order. The exporter may free the memory once that is done. False when the driver refused.
  [[nodiscard]] virtual bool close_allocation(void* pointer, stream_handle stream) noexcept = 0;
  /// Page-locked host memory that the device reads and writes at link speed; ordinary memory on host.
  virtual void* allocate_pinned(std::size_t bytes) = 0;
  [[nodiscard]] virtual bool deallocate_pinned(void* pointer, std::size_t bytes) noexcept = 0;

  /// What the device's driver says of the memory at an address, whoever allocated it. Memory that the driver does not know is
  /// the host's.
  [[nodiscard]] virtual memory_kind kind_of(const void* pointer) const = 0;

  /// True when the hardware and the driver let work of this device touch memory of `other`'s: always on one device, never
  /// between backends of different kinds. Nothing has to be enabled for `copy`, which works between any two devices.
  [[nodiscard]] virtual bool can_access_peer(const backend& other) const = 0;
  /// Work that is queued on streams of this device from now on, kernels and fills among it, may touch memory of `other`'s
  /// device: what was allocated by any library, and the stream-ordered pool of the object `other`. In this direction only;
  /// it stays enabled for the process, and enabling it again does nothing.
  /// @throws error unsupported naming both devices when `can_access_peer(other)` is false.
  virtual void enable_peer_access(backend& other) = 0;

  /// Queues a copy. Pageable host memory may make the call wait; it has been read when the call returns.
  virtual void copy(void* target, const void* source, std::size_t bytes, copy_kind kind,
                    stream_handle stream) = 0;
  /// Queues copies of page-locked or device memory, which may be done in any order. One call of the driver where it has one: copies
  /// queued one by one begin 4 us after each other on an H100.
  virtual void copy_all(std::span<const copy_range> ranges, copy_kind kind, stream_handle stream) {
    for (const copy_range& each : ranges) {
      copy(each.target, each.source, each.bytes, kind, stream);
    }
  }
  virtual void fill(void* target, std::uint8_t value, std::size_t bytes, stream_handle stream) = 0;
  /// Queues a write of one word of page-locked memory of this device. Whoever reads it there (std::atomic_ref, acquire) sees all
  /// that was queued on the stream before it as done, and no call of the driver is needed for that: sixteen threads that query events
  /// wait for each other in the driver, 13 us a query on an H100.
  /// @param target  aligned to 4 bytes
  virtual void write_word(std::uint32_t* target, std::uint32_t value, stream_handle stream) = 0;

private:
  static std::uint64_t next_serial() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  const std::uint64_t serial_ = next_serial();
};

} // namespace saeta
