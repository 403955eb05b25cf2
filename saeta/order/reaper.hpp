// The reaper: gives memory back after its last work has finished, without making anybody wait.
//
// What      A release is the points that must pass and one action: free a block or drop a keepalive.
// Order     Whatever has passed already is done at once on the calling thread. The rest waits in a queue; a background
//           thread (started on first need) asks for all of it again and again, so that none waits for another. A release
//           after unknown work needs a point over all work of the devices where the memory was visible (`everything`). It
//           is taken when the release is made, or later when a known capture is active then.
// Failure   What a device refuses, an answer or the action itself, is tried again and reported once. Only a device that is lost
//           (errc::device_lost) runs nothing any more: its releases are done.
// Thread    Any. Actions run without a lock held, on the caller's or on the reaper's thread. One thread at a time asks the
//           device, and whoever submits or waits does not wait for that.
#pragma once

#include "saeta/order/ordering.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace saeta {

struct pending_release {
  requirement after;
  /// False when it could not be done and is to be tried again. Must not throw.
  std::function<bool()> action;
  std::string label; ///< whose bytes are released
  std::uint64_t bytes = 0;
  bool reported = false; ///< a failure, which is said once
};

/// Who does the releases that had to wait.
enum class release_thread {
  background, ///< a thread of the reaper, started on first need
  none, ///< whoever calls `drain`, `wait_for_one` or `wait_idle`, for programs that want no threads of others
};

class reaper {
public:
  /// Points over all unknown work; nothing while a known capture is active.
  using everything_source = std::function<std::optional<point_set>()>;
  using clock = std::chrono::steady_clock;

  explicit reaper(everything_source everything, release_thread how = release_thread::background);
  reaper(const reaper&) = delete;
  reaper& operator=(const reaper&) = delete;
  /// Stops the thread; nothing is pending then, because every pending release keeps its context alive.
  ~reaper();

  /// Takes the points over unknown work, if `after` has any. False while a known capture is active.
  bool resolve(requirement& after);
  void submit(pending_release release);
  /// Does what has passed; returns how many releases that were.
  std::size_t drain();
  /// Releases that had to wait and have been done.
  [[nodiscard]] std::uint64_t done() const;
  /// Waits until more releases have been done than `before`. False when none was by the deadline, or when none is pending
  /// but those that an active capture holds up, which only the caller may be able to end.
  bool wait_for_one(std::uint64_t before, clock::time_point deadline);
  /// Something is pending that no capture holds up.
  [[nodiscard]] bool can_wait() const;
  /// Waits until nothing is pending, at most `timeout`; true when nothing is. Does not wait for captures either.
  bool wait_idle(std::chrono::milliseconds timeout);
  [[nodiscard]] std::size_t pending() const;
  /// Label and bytes of each pending release.
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> pending_bytes() const;

private:
  struct shared;
  std::shared_ptr<shared> shared_;
  release_thread how_;
};

} // namespace saeta
