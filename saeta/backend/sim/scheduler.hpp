// The scheduler of a machine: its streams and the choice of what runs next.
//
// What      A stream is a queue; of the operations that are ready the random source picks one. A blocked host thread
//           runs operations itself until what it waits for is done, and sleeps only when nothing is ready.
// Thread    Every function is called with the lock of the machine held; `advance` and `wait` let go of it while a
//           callout runs or nothing is ready.
#pragma once

#include "saeta/backend/sim/journal.hpp"
#include "saeta/backend/sim/random_source.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>

namespace saeta::sim {

enum class stream_kind { non_blocking, blocking, legacy };

/// A capture of a graph; the streams that are in it share it, and so do the events that were recorded in it.
struct capture_state {
  std::uint32_t origin = 0; ///< slot of the stream that it was begun on
  bool open = true;
  bool lost = false; ///< ended by a context-wide event
};

struct stream_state {
  std::uint32_t slot = 0;
  std::uint64_t id = 0; ///< what the contract calls its id
  gpu* home = nullptr;
  stream_kind kind = stream_kind::non_blocking;
  bool alive = true;                      ///< a destroyed stream still finishes its work
  std::shared_ptr<capture_state> capture; ///< the one that it is in
  vector_clock clock;                     ///< what the next operation comes after
  std::deque<std::shared_ptr<operation>> queue;
  std::shared_ptr<operation> last; ///< the latest one queued
};

class scheduler {
public:
  explicit scheduler(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] random_source& random() noexcept { return random_; }
  stream_state& add_stream(gpu& home, stream_kind kind);
  /// Null where there is none.
  [[nodiscard]] stream_state* stream(std::uint64_t slot) const noexcept;
  [[nodiscard]] const std::vector<std::unique_ptr<stream_state>>& streams() const noexcept {
    return streams_;
  }

  /// What a new operation of the stream comes after, the rules of the legacy default stream among it. The stream's clock
  /// covers it afterwards.
  operations predecessors(stream_state& stream);
  void queue(stream_state& stream, std::shared_ptr<operation> work);

  /// Runs one part of a ready operation and tells `log` when it was the last; false when none is ready.
  bool advance(std::unique_lock<std::mutex>& lock, journal& log);
  /// Until all of `awaited` is done.
  void wait(std::unique_lock<std::mutex>& lock, journal& log, operations awaited);
  /// Sleeps until something may have become ready.
  void sleep(std::unique_lock<std::mutex>& lock);
  void wake() noexcept { changed_.notify_all(); }
  [[nodiscard]] bool idle() const noexcept;
  /// Takes out what is queued on one device, or on all, as if it was done; the caller drops it once it has let go of the
  /// lock.
  operations abandon(const gpu* home = nullptr);

private:
  std::shared_ptr<operation> pick();
  void finish(const std::shared_ptr<operation>& work, journal& log);

  random_source random_;
  std::vector<std::unique_ptr<stream_state>> streams_; ///< by slot
  std::vector<std::shared_ptr<operation>> ready_;      ///< kept for its capacity
  std::condition_variable changed_;
  std::size_t sleeping_ = 0;
};

} // namespace saeta::sim
