// The simulated device: an adversarial, asynchronous backend for tests.
//
// What      Streams are queues that run nothing until a scheduler, driven by a seed, lets them; it delays, interleaves
//           and tears apart everything that the edges between the operations allow. Every operation knows the bytes it
//           reads and writes, so a missing edge is reported as a race, whatever the schedule was. Memory is poisoned
//           with 0xDB when it is allocated and when it is freed, at that operation's place in the order.
// Owner     Shared. Devices made with `options.beside` belong to one machine: one scheduler, one set of clocks. Two with
//           the same ordinal are two libraries on one device. Work that is queued when the last one goes never runs.
// Order     A race is found when the later operation is queued, by vector clocks: one a stream and one for the host,
//           which learns from blocking waits and from queries that say "finished".
// Thread    Any. Bodies given to `launch` and `host_callback` run without a lock held, on whatever thread runs them.
//           One thread with pace::manual replays exactly by its seed.
// Failure   As in saeta/device/backend.hpp. A race is no failure: the operation is queued all the same.
#pragma once

#include "saeta/device/backend.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace saeta::sim {

class machine;
struct gpu;
class simulated_device;
using device = simulated_device; ///< a class can't be called as its member `device()`

/// What device memory holds that nobody has written.
inline constexpr std::uint8_t poison = 0xDB;

enum class pace {
  manual,    ///< operations run inside blocking waits, in step() and run(), and by chance inside calls
  automatic, ///< a thread of the device runs them too, so that threads that only poll see progress
};

struct options {
  std::uint64_t seed = 0;
  std::int32_t ordinal = 0;
  std::uint64_t total_bytes = std::uint64_t{256} << 20; ///< of the device; more is out_of_memory
  pace how = pace::manual;
  unsigned run_percent = 25; ///< manual: chance that a call of the contract first runs some ready operations
  /// The ids of a device's streams are 3, 4, 5, ..., the legacy default stream's is 1: each meets the same number on another
  /// device and on the host. Otherwise they are unique in the process.
  bool small_ids = true;
  unsigned fail_percent = 0; ///< as for set_fail_percent(); of a new device
  /// A device of the machine that this one joins; the seed and the pace are then those of the machine.
  std::shared_ptr<device> beside = nullptr;
};

/// Of a capture on a stream.
enum class capture_progress {
  none,
  open,
  ended, ///< by a context-wide event, or with the device; end_capture() will be false
};

struct byte_range {
  const void* pointer;
  std::size_t bytes;
};

/// Two accesses without an edge between them, at least one of them a write; a use of memory that is not there; or of
/// memory of another device before `enable_peer_access`.
struct race {
  std::string
      first; ///< "fill on stream 5", "copy on stream 7 (reads)", "free on stream 3", "free by the host"
  std::string second;  ///< the one that was queued later
  const void* pointer; ///< where they meet
  std::size_t bytes;
  std::string text; ///< one line with all of it: streams, operations, allocation, offset, bytes
};

/// Holds a stream back until it is opened or destroyed.
class hold {
public:
  hold() = default;
  hold(const hold&) = delete;
  hold& operator=(const hold&) = delete;
  virtual ~hold() = default;
  virtual void open() = 0;
};

/// What is alive, for leak checks.
struct usage {
  std::size_t allocations = 0;
  std::size_t pinned = 0;
  std::size_t streams = 0;
  std::size_t events = 0;
  std::size_t imports = 0; ///< pools and allocations
  std::uint64_t bytes = 0; ///< of the allocations

  friend bool operator==(const usage&, const usage&) = default;
};

class simulated_device final : public backend {
public:
  static std::shared_ptr<simulated_device> create(const options& chosen = {});
  ~simulated_device() override;

  // The side of other libraries and of users' kernels.

  /// Queues a kernel; `body` does its work when it runs and may touch nothing but the ranges.
  void launch(stream_handle stream, const std::string& name, const std::vector<byte_range>& reads,
              const std::vector<byte_range>& writes, std::function<void()> body);
  /// Queues a function of the host; the stream goes on when it has returned.
  void host_callback(stream_handle stream, std::function<void()> body);
  /// A stream that synchronises with the legacy default stream.
  stream_handle create_blocking_stream();
  /// Until end_capture() work queued on the stream is captured: it does not run, the stream can't be waited for and
  /// context-wide events are refused. As a driver does, such an event ends the capture of a stream that does not
  /// synchronise with the legacy default stream. A stream that waits for an event recorded in the capture joins it.
  void begin_capture(stream_handle stream);
  /// begin_capture() in the middle of whatever goes on: when so many more calls of the contract have come to this device.
  /// A second call replaces the first; 0 calls it off.
  void begin_capture_after(stream_handle stream, unsigned calls);
  [[nodiscard]] capture_progress progress(stream_handle stream) const;
  /// The captured operations are dropped. False when the capture was ended before.
  bool end_capture(stream_handle stream);
  /// The host touches page-locked memory now: what it has waited for must cover the work on those bytes.
  void host_access(byte_range where, bool write, const std::string& name);

  // The scheduler.

  /// Work queued on the stream from now on starts after open().
  std::unique_ptr<hold> close_gate(stream_handle stream);
  /// Runs one step of a ready operation that the seed chooses; false when none is ready.
  bool step();
  /// Until nothing is ready; how many steps ran.
  std::size_t run();
  /// Nothing is queued on any stream of the machine.
  [[nodiscard]] bool idle() const;

  // The driver.

  /// From now on every call of the contract that may throw does so with this chance, drawn from the seed: error device,
  /// with nothing changed. Calls that give something back and the functions that stand for other libraries always work.
  void set_fail_percent(unsigned percent);
  /// Breaks the device for good, for every object that stands for it: what is queued never runs, whoever waits for it wakes,
  /// and every call throws error device_lost. Memory can't be freed any more; streams and events can be destroyed.
  void lose();

  // What was found.

  [[nodiscard]] std::vector<race> races() const;
  /// The seed, the races and the operations in the order they ran; the same seed and program give the same text.
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
  gpu* gpu_; ///< of the machine
};

} // namespace saeta::sim
