// The scheduler of a machine: holds its streams and chooses the operation that runs next.
//
// What      A stream is a queue. The random source picks one of the ready operations. A blocked host thread
//           runs operations itself until the ones it waits for are done, and sleeps only when none is ready.
// Thread    The caller holds the lock of the machine. `advance` and `wait` release it while a callout runs or
//           nothing is ready.
#pragma once

#include "saeta/backend/sim/journal.hpp"
#include "saeta/backend/sim/random_source.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>

namespace saeta::sim {

enum class stream_kind { non_blocking, blocking, legacy };

/// A graph capture, shared by the streams in it and the events recorded in it.
struct capture_state {
  std::uint32_t origin = 0; ///< slot of the stream that began the capture
  bool open = true;
  bool lost = false; ///< ended by a context-wide event or with the device
};

struct stream_state {
  std::uint32_t slot = 0;
  std::uint64_t id = 0; ///< the contract's stream id
  gpu* home = nullptr;
  stream_kind kind = stream_kind::non_blocking;
  bool alive = true;                      ///< false once destroyed; its queued work still runs
  std::shared_ptr<capture_state> capture; ///< null: not capturing
  vector_clock clock;                     ///< the operations that precede the next one
  std::deque<std::shared_ptr<operation>> queue;
  std::shared_ptr<operation> last; ///< the latest operation that was queued
};

class scheduler {
public:
  explicit scheduler(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] random_source& random() noexcept { return random_; }
  stream_state& add_stream(gpu& home, stream_kind kind);
  /// Null if no stream has this slot.
  [[nodiscard]] stream_state* stream(std::uint64_t slot) const noexcept;
  [[nodiscard]] const std::vector<std::unique_ptr<stream_state>>& streams() const noexcept {
    return streams_;
  }

  /// The operations that a new operation of the stream must wait for, including the rules of the legacy
  /// default stream. Joins their clocks to the stream's.
  operations predecessors(stream_state& stream);
  void queue(stream_state& stream, std::shared_ptr<operation> work);

  /// Runs one part of a ready operation. Records the operation in `log` after its last part. False when none
  /// is ready.
  bool advance(std::unique_lock<std::mutex>& lock, journal& log);
  /// Runs operations or sleeps until all of `awaited` are done.
  void wait(std::unique_lock<std::mutex>& lock, journal& log, operations awaited);
  /// Sleeps until an operation may have become ready.
  void sleep(std::unique_lock<std::mutex>& lock);
  void wake() noexcept { changed_.notify_all(); }
  [[nodiscard]] bool idle() const noexcept;
  /// Removes the queued operations of one device, or of all, and marks them done. The caller destroys them
  /// after it has released the lock.
  operations abandon(const gpu* home = nullptr);

private:
  std::shared_ptr<operation> pick();
  void finish(const std::shared_ptr<operation>& work, journal& log);

  random_source random_;
  std::vector<std::unique_ptr<stream_state>> streams_; ///< by slot
  std::vector<std::shared_ptr<operation>> ready_;      ///< a member to reuse its capacity
  std::condition_variable changed_;
  std::size_t sleeping_ = 0;
};

} // namespace saeta::sim
