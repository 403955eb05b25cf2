// The reaper: releases memory after the last work on it has finished, without making a thread wait.
//
// @code
// reaper releases([] { return std::optional<point_set>(std::in_place); }); // no work is unknown
// pending_release release{.after = {}, .action = [] { return true; }, .label = "scratch", .bytes = 4096};
// release.after.points.add(mark(stream));
// releases.submit(std::move(release)); // runs the action once `stream` has got there
// const bool all_done = releases.wait_idle(std::chrono::seconds(10));
// @endcode
//
// What      A release is a set of points that must pass and one action: free a block or drop a keepalive.
// Order     A release whose points have passed is done at once on the calling thread. The others wait in a
//           queue. A background thread (started on first need) queries all of them repeatedly, so that none
//           delays another. A release after unknown work needs a point over all work of the devices where the
//           memory was visible (`everything`). The point is taken on submission, or later if a known capture
//           is active then.
// Failure   A query or an action that fails is retried, and reported once. A lost device (errc::device_lost)
//           runs nothing any more, so its releases are done.
// Thread    Any. Actions run with no lock held, on the thread of the caller or of the reaper. One thread at a
//           time queries the device. Threads that submit or wait are not blocked by that.
#pragma once

#include "saeta/base/export.hpp"
#include "saeta/order/ordering.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace SAETA_EXPORT saeta {

struct pending_release {
  requirement after;
  /// Returns false if it failed and has to be retried. Must not throw.
  std::function<bool()> action;
  std::string label; ///< the owner of the bytes
  std::uint64_t bytes = 0;
  bool reported = false; ///< true once a failure was reported, so that it is reported only once
};

/// The thread that performs delayed releases.
enum class release_thread {
  background, ///< a thread of the reaper, started on first need
  none, ///< the caller of `drain`, `wait_for_one` or `wait_idle`, for programs that want no extra threads
};

class reaper {
public:
  /// Returns points over all unknown work, or nullopt while a known capture is active.
  using everything_source = std::function<std::optional<point_set>()>;
  using clock = std::chrono::steady_clock;

  explicit reaper(everything_source everything, release_thread how = release_thread::background);
  reaper(const reaper&) = delete;
  reaper& operator=(const reaper&) = delete;
  /// Stops the thread. By then nothing is pending, because every pending release keeps its context alive.
  ~reaper();

  /// Takes the points over unknown work if `after` needs them. Returns false while a known capture is active.
  bool resolve(requirement& after);
  void submit(pending_release release);
  /// Does the releases whose points have passed. Returns how many were done.
  std::size_t drain();
  /// The number of releases that had to wait and have been done.
  [[nodiscard]] std::uint64_t done() const;
  /// Waits until more than `before` releases have been done. Returns false if the deadline passes, or if only
  /// releases that an active capture holds up are pending. Perhaps only the caller can end that capture.
  bool wait_for_one(std::uint64_t before, clock::time_point deadline);
  /// True if a release is pending that no capture holds up.
  [[nodiscard]] bool can_wait() const;
  /// Waits at most `timeout`, but not for captures, until nothing is pending. Returns whether nothing is.
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
