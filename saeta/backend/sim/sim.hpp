// The simulated device: an adversarial asynchronous device behind the contract, for tests only.
//
// What      Streams are queues that run nothing when work is queued. A seeded scheduler runs what the edges allow, in any
//           order they allow, in pieces and late. Memory is poisoned where it is allocated and freed. Every operation
//           states the bytes it touches, and two that meet without an edge between them are a `race`: found when the
//           second is queued, whatever the schedule.
// Owner     Shared. Holds, streams and events may outlive a test's interest in them, not the device; a hold may.
//           Work that is still queued when the device ends never runs.
// Order     That of CUDA: streams, events, the legacy default stream (handle 1) with blocking streams, one default stream
//           a thread (handle 2), and a stream-ordered pool that hands freed addresses to other streams behind an edge
//           of its own. That edge orders the reused bytes and proves nothing about others.
// Thread    Any. With pace::manual a program on one thread replays exactly by its seed.
// Failure   As a driver: error device for a wrong call (an unknown handle, synchronising a stream that captures, any call
//           from inside an operation), out_of_memory past `total_bytes`. What a driver would not notice is a race.
#pragma once

#include "saeta/device/backend.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace saeta::sim {

enum class pace {
  manual, ///< work runs inside blocking waits, in run() and step(), and by chance inside calls of the contract
  automatic, ///< a thread of the device runs ready work too, so that threads that poll make progress
};

struct options {
  std::uint64_t seed = 0;
  std::int32_t ordinal = 0;
  std::uint64_t total_bytes = 256U << 20; ///< of the device; allocations beyond it are out_of_memory
  pace how = pace::manual;
  unsigned run_percent = 25; ///< chance that a call of the contract first runs some ready operations
};

struct byte_range {
  const void* pointer = nullptr;
  std::size_t bytes = 0;
};

/// Two accesses without an edge between them, at least one a write; or one that is wrong by itself: freed memory,
/// bytes past an allocation, a wrong size at a free.
struct race {
  std::string first;  ///< "fill on stream 5 (writes)", "free on stream 3"
  std::string second; ///< queued later
  const void* pointer = nullptr;
  std::size_t bytes = 0; ///< where they meet
  std::string text;      ///< one line with all of it: operations, allocation, offset, bytes
};

/// Work behind a closed gate waits for open(). Opens when destroyed.
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
  std::size_t allocations = 0; ///< of device memory
  std::size_t pinned = 0;
  std::size_t streams = 0; ///< created and not destroyed
  std::size_t events = 0;
  std::uint64_t bytes = 0; ///< of device memory

  friend bool operator==(const usage&, const usage&) = default;
};

/// `backend::device()` is {device_kind::sim, ordinal}; call it through `backend`, the class has the same name.
class device : public backend {
public:
  static std::shared_ptr<device> create(options chosen = {});

  // The side of foreign libraries and of users' kernels. Bodies run without a lock, on any thread; they may not call
  // the device nor own it, and what they throw is reported.

  virtual void launch(stream_handle stream, std::string name, std::vector<byte_range> reads,
                      std::vector<byte_range> writes, std::function<void()> body) = 0;
  virtual void host_callback(stream_handle stream, std::function<void()> body) = 0;
  /// Synchronises with the legacy default stream, unlike those of create_stream.
  virtual stream_handle create_blocking_stream() = 0;
  /// Until end_capture, record_context is refused and what is queued on the stream is captured and does not run.
  virtual void begin_capture(stream_handle stream) = 0;
  /// Drops what was captured.
  virtual void end_capture(stream_handle stream) = 0;
  /// The host touches device or pinned memory now: it must have waited for whatever conflicts.
  virtual void host_access(byte_range where, bool write, std::string name) = 0;

  // The scheduler.

  /// Later work on the stream starts after open().
  virtual std::unique_ptr<hold> close_gate(stream_handle stream) = 0;
  /// Runs one ready operation, or a piece of one, chosen by the seed; false when none is ready.
  virtual bool step() = 0;
  /// Runs until nothing is ready; returns how many operations finished.
  virtual std::size_t run() = 0;
  [[nodiscard]] virtual bool idle() const = 0; ///< nothing is queued at all

  // What was found.

  [[nodiscard]] virtual std::vector<race> races() const = 0;
  /// Seed, races, and the operations in the order they ran. The same seed and program give the same text.
  [[nodiscard]] virtual std::string report() const = 0;
  [[nodiscard]] virtual usage live() const = 0;
};

} // namespace saeta::sim
