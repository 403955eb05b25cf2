// Captures: which graphs are being captured on a device, as far as Saeta can know.
//
// An event over all work of the context (timelines::mark_device) would end a capture that is in its way. A capture is known
// when the driver reports it (streams that synchronise with the legacy default stream), when somebody announced it
// (`announce`, context::capturing), or when a hand-over, a token or a loan named a stream that captures (`note`). While one is
// active, no such event is recorded. docs/captures.md has the rules for all of Saeta.
//
// Owner     `timelines` has one; announcements share it.
// Thread    Any.
// Failure   error device from the driver, with nothing changed.
#pragma once

#include "saeta/device/event.hpp"

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace saeta {

class captures : public std::enable_shared_from_this<captures> {
public:
  explicit captures(std::shared_ptr<backend> device) : device_(std::move(device)) {}

  /// A capture that the driver would not report is active until the result is dropped. Returns when no event over all work is
  /// being recorded any more (`hold_off`), so that the capture may begin.
  [[nodiscard]] std::shared_ptr<void> announce();
  /// While the result lives, no announcement returns: between the question whether a capture is active and the record.
  [[nodiscard]] std::unique_lock<std::mutex> hold_off() { return std::unique_lock(recording_); }
  /// Asks a stream that somebody names for a use whether it captures a graph. If so, the capture is followed until it ends.
  bool note(stream_ref named);
  /// True while an announced or noted capture is active. What the driver reports is its own business (record_context).
  [[nodiscard]] bool active();

private:
  /// Followed by a stream of ours that has joined the capture: an ended capture lets go of it, and the named stream may be
  /// gone by then.
  struct followed {
    stream_ref named;
    stream companion;
  };
  void follow(stream_ref capturing);
  void drop_ended();

  const std::shared_ptr<backend> device_;
  std::atomic<int> announced_{0};
  std::atomic<std::size_t> followed_count_{0};
  std::mutex recording_; ///< taken before `mutex_`
  std::mutex mutex_;
  std::vector<followed> followed_; ///< that were active when they were last asked
  std::vector<stream> companions_; ///< of captures that have ended
};

} // namespace saeta
