// Fences: recorded events that later actions wait for, taken from a pool of events.
//
// Owner     A fence shares its event; the event goes back to the pool with the last copy. The pool lives as long as a
//           fence does.
// Order     `fence.wait(s)`: work queued later on `s` starts after what the fence covers. Waiting for a fence of the same
//           stream is skipped.
// Thread    Any.
#pragma once

#include "saeta/device/event.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace saeta {

class event_pool;

class fence {
public:
  /// Stream id of a fence over all work of a context: no stream is "the same" as it.
  static constexpr std::uint64_t every_stream = 0;

  fence() = default; ///< covers nothing: complete
  fence(std::shared_ptr<event_pool> pool, event recorded, std::uint64_t stream_id);

  [[nodiscard]] bool empty() const noexcept { return state_ == nullptr; }
  [[nodiscard]] std::uint64_t stream_id() const noexcept;
  [[nodiscard]] bool complete() const;
  void wait(stream_ref stream) const;
  /// Blocks the calling thread. Not counted: contexts count through `context::synchronize`.
  void synchronize() const;
  /// Null for an empty fence. For protocols that hand an event out (Arrow's sync_event); valid while the fence lives.
  [[nodiscard]] std::optional<event_ref> recorded_event() const;

private:
  struct state;
  std::shared_ptr<state> state_;
};

class event_pool : public std::enable_shared_from_this<event_pool> {
public:
  explicit event_pool(std::shared_ptr<backend> device) : device_(std::move(device)) {}

  /// A fence over everything queued on the stream so far.
  [[nodiscard]] fence record(stream_ref stream);
  /// A fence over all work of the device's context, other libraries' too; nothing while a stream captures a graph, as
  /// far as the device can tell beforehand, while somebody holds such fences, or while a capture goes on that was heeded.
  [[nodiscard]] std::optional<fence> record_context();
  /// Until the result is dropped `record_context` gives nothing: for whoever captures a graph. The driver would end a
  /// capture on a stream that does not synchronise with the legacy default stream, and can't be asked beforehand.
  [[nodiscard]] std::shared_ptr<void> hold_context_fences();
  /// Asks a stream that somebody names for a use whether it captures a graph. If so, context-wide fences are held until
  /// that capture has ended.
  bool heed_capture(stream_ref stream);

private:
  friend class fence;
  /// Unused events, split up by thread.
  struct alignas(64) shard {
    std::mutex mutex;
    std::vector<event> free;
  };
  /// A capture that goes on, followed by a stream of ours that has joined it: an ended capture lets go of it, and the
  /// named stream may be gone by then.
  struct capture {
    stream_ref named;
    stream companion;
  };
  void follow(stream_ref capturing);
  void drop_ended();
  [[nodiscard]] bool held();
  event take();
  void put_back(event unused) noexcept;

  std::shared_ptr<backend> device_;
  std::array<shard, 16> shards_;
  std::atomic<int> holds_{0};
  std::mutex captures_mutex_;
  std::vector<capture> captures_;  ///< that went on when they were last asked
  std::vector<stream> companions_; ///< of captures that have ended
};

} // namespace saeta
