// The simulated device: an adversarial, asynchronous backend for tests.
//
// What      Streams are queues. A seeded scheduler runs their operations, and delays, interleaves and splits
//           them as far as the edges between them allow. Every operation declares the bytes that it reads and
//           writes, so a missing edge is reported as a race in any schedule. Memory is filled with 0xDB when
//           the operation that allocates or frees it runs.
// Owner     Shared. Devices created with `options.beside` belong to one machine with one scheduler and one
//           set of clocks. Two objects with the same ordinal represent two libraries on one device. When the
//           last object of the machine is destroyed, queued work is dropped.
// Order     A race is found by vector clocks when the later operation is queued. Each stream has a clock, and
//           the host has one that advances at blocking waits and at queries that return "finished".
// Thread    Any. Bodies given to `launch` and `host_callback` run without a lock held, on any thread. With
//           pace::manual, a single-threaded program replays exactly from its seed.
// Failure   As in saeta/device/backend.hpp. A race is not a failure: the operation is queued anyway.
#pragma once

#include "saeta/device/backend.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

namespace saeta::sim {

class machine;
struct gpu;
class simulated_device;
using device = simulated_device; ///< a class can't have the name of its member `device()`

/// As in the driver, other processes can't open an allocation of an exportable pool that is larger than this.
inline constexpr std::uint64_t largest_pool_export = std::uint64_t{4} << 20;

/// The byte that fills device memory before it is written.
inline constexpr std::uint8_t poison = 0xDB;

enum class pace {
  manual,    ///< operations run inside blocking waits, in step() and run(), and by chance inside calls
  automatic, ///< a background thread runs them too, so that threads that only poll see progress
};

struct options {
  std::uint64_t seed = 0;
  std::int32_t ordinal = 0;
  std::uint64_t total_bytes = std::uint64_t{256} << 20; ///< the device's memory; beyond it out_of_memory
  pace how = pace::manual;
  unsigned run_percent = 25; ///< manual: chance that a contract call first runs some ready operations
  /// If true, a device's stream ids are 3, 4, 5, ..., and 1 for the legacy default stream, so they coincide
  /// with ids on other devices and on the host. If false, ids are unique in the process.
  bool small_ids = true;
  bool peers = true; ///< false: no other device can access its memory, nor it theirs
  /// Time that the link takes for each MiB that is copied from the host to the device, at least.
  std::chrono::nanoseconds time_per_mib{0};
  unsigned fail_percent = 0; ///< see set_fail_percent(); applies to a new device
  /// A device whose machine the new one joins. The machine's seed and pace then apply.
  std::shared_ptr<device> beside = nullptr;
};

/// The state of a capture on a stream.
enum class capture_progress {
  none,
  open,
  ended, ///< by a context-wide event or the loss of the device; end_capture() returns false
};

struct byte_range {
  const void* pointer;
  std::size_t bytes;
};

/// Two accesses without an edge between them, at least one of them a write. Also a use of memory that is not
/// allocated, or of another device's memory before `enable_peer_access`.
struct race {
  /// The access queued first: "fill on stream 5", "copy on stream 7 (reads)", "free by the host".
  std::string first;
  std::string second;  ///< the access queued later
  const void* pointer; ///< where the accesses overlap
  std::size_t bytes;
  std::string text; ///< one line that names streams, operations, allocation, offset and bytes
};

/// Blocks a stream until the hold is opened or destroyed.
class hold {
public:
  hold() = default;
  hold(const hold&) = delete;
  hold& operator=(const hold&) = delete;
  virtual ~hold() = default;
  virtual void open() = 0;
};

/// The number of live objects, for leak checks.
struct usage {
  std::size_t allocations = 0;
  std::size_t pinned = 0;
  std::size_t streams = 0;
  std::size_t events = 0;
  std::size_t imports = 0; ///< imported pools and opened allocations
  std::uint64_t bytes = 0; ///< in the allocations

  friend bool operator==(const usage&, const usage&) = default;
};

class simulated_device final : public backend {
public:
  static std::shared_ptr<simulated_device> create(const options& chosen = {});
  ~simulated_device() override;

  // Simulates other libraries and users' kernels.

  /// Queues a kernel. `body` does its work when it runs and may touch only the ranges.
  void launch(stream_handle stream, const std::string& name, const std::vector<byte_range>& reads,
              const std::vector<byte_range>& writes, std::function<void()> body);
  /// Queues a host function. The stream continues when it has returned.
  void host_callback(stream_handle stream, std::function<void()> body);
  /// A stream that synchronises with the legacy default stream.
  stream_handle create_blocking_stream();
  /// Begins a capture. Until end_capture(), work queued on the stream does not run, the stream can't be
  /// waited for and context-wide events are refused. As with a real driver, such an event also ends the
  /// capture of a non-blocking stream. A stream that waits for an event recorded in the capture joins it.
  void begin_capture(stream_handle stream);
  /// Calls begin_capture() in the middle of other work: after `calls` more contract calls on this device. A
  /// second call replaces the first; 0 cancels it.
  void begin_capture_after(stream_handle stream, unsigned calls);
  [[nodiscard]] capture_progress progress(stream_handle stream) const;
  /// Drops the captured operations. False when the capture had already ended.
  bool end_capture(stream_handle stream);
  /// Checks an access of the host to page-locked memory now. The host must have waited for the work on those
  /// bytes.
  void host_access(byte_range where, bool write, const std::string& name);

  // The scheduler.

  /// Work queued on the stream from now on starts after the hold's open().
  std::unique_ptr<hold> close_gate(stream_handle stream);
  /// Runs one step of a ready operation, chosen by the seed. False when none is ready.
  bool step();
  /// Runs steps until nothing is ready. Returns the number of steps.
  std::size_t run();
  /// True when nothing is queued on any stream of the machine.
  [[nodiscard]] bool idle() const;

  // The driver.

  /// Makes every contract call that may throw fail with this chance, drawn from the seed. A failed call
  /// throws error device and changes nothing. Calls that free something and the functions that simulate other
  /// libraries always work.
  void set_fail_percent(unsigned percent);
  /// Breaks the device permanently, for every object that represents it. Queued operations never run, threads
  /// that wait for them wake, and every call throws error device_lost. Memory can no longer be freed; streams
  /// and events can be destroyed.
  void mark_lost();

  // Findings.

  [[nodiscard]] std::vector<race> races() const;
  /// The seed, the races and the operations in the order in which they ran. The same seed and program give
  /// the same text.
  [[nodiscard]] std::string report() const;
  [[nodiscard]] usage live() const;

  // The device contract.

  [[nodiscard]] device_id device() const noexcept override;
  [[nodiscard]] device_properties properties() const override;
  [[nodiscard]] const kernel_table& kernels() const noexcept override;
  stream_handle create_stream() override;
  void destroy_stream(stream_handle stream) noexcept override;
  std::uint64_t stream_id(stream_handle stream) override;
  void synchronize_stream(stream_handle stream) override;
  bool stream_idle(stream_handle stream) override;
  bool capturing(stream_handle stream) override;
  event_handle create_event() override;
  void destroy_event(event_handle event) noexcept override;
  void record_event(event_handle event, stream_handle stream) override;
  fence_outcome record_context(event_handle event) override;
  void wait_event(stream_handle stream, event_handle event) override;
  bool event_complete(event_handle event) override;
  void synchronize_event(event_handle event) override;
  void* allocate(std::size_t bytes, std::size_t alignment) override;
  [[nodiscard]] bool deallocate(void* pointer, std::size_t bytes, std::size_t alignment) noexcept override;
  void* allocate_async(std::size_t bytes, stream_handle stream) override;
  [[nodiscard]] bool deallocate_async(void* pointer, std::size_t bytes,
                                      stream_handle stream) noexcept override;
  std::size_t trim_pool(std::size_t keep) override;
  [[nodiscard]] std::uint64_t pool_bytes() const override;
  void set_pool_threshold(std::uint64_t bytes) override;
  [[nodiscard]] std::shared_ptr<backend> another() override;
  void make_pool_exportable() override;
  [[nodiscard]] bool pool_exportable() const override;
  int export_pool() override;
  allocation_name export_allocation(const void* base) override;
  pool_handle import_pool(int descriptor) override;
  void release_pool(pool_handle imported) noexcept override;
  void* open_allocation(pool_handle imported, const allocation_name& name) override;
  [[nodiscard]] bool close_allocation(void* pointer, stream_handle stream) noexcept override;
  void* allocate_pinned(std::size_t bytes) override;
  [[nodiscard]] bool deallocate_pinned(void* pointer, std::size_t bytes) noexcept override;
  [[nodiscard]] memory_kind kind_of(const void* pointer) const override;
  [[nodiscard]] bool can_access_peer(const backend& other) const override;
  void enable_peer_access(backend& other) override;
  void copy(void* target, const void* source, std::size_t bytes, copy_kind kind,
            stream_handle stream) override;
  void fill(void* target, std::uint8_t value, std::size_t bytes, stream_handle stream) override;
  void write_word(std::uint32_t* target, std::uint32_t value, stream_handle stream) override;

private:
  simulated_device(std::shared_ptr<machine> owner, gpu& which);

  std::shared_ptr<machine> machine_;
  gpu* gpu_; ///< owned by the machine
  // The stream-ordered pool of this object, guarded by the machine's lock.
  bool exportable_ = false;
  bool pool_used_ = false;
  std::unordered_set<const void*> from_pool_; ///< live allocations
};

} // namespace saeta::sim
