// The reaper: gives memory back after its last work has finished, without making anybody wait.
//
// What      A release is the fences that must pass and one action: free a block or drop a keepalive.
// Order     Whatever has passed already is done at once on the calling thread. The rest waits in a queue that a
//           background thread (started on first need) empties; `drain` does what has passed meanwhile.
//           A release that needs a context-wide fence while a stream captures a graph is kept and tried again, and so
//           is one whose device fails its queries, a few times: then what it held is given up rather than kept for ever.
// Thread    Any. Actions run without a lock held, on the caller's or on the reaper's thread.
#pragma once

#include "saeta/order/fence.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace saeta {

struct pending_release {
  std::vector<fence> after;
  bool needs_context_fence =
      false;                    ///< `after` is not complete before a fence over all work has been recorded
  std::function<void()> action; ///< must not throw
  int failures = 0;             ///< of the device, when it was asked whether the work has finished
};

/// Who does the releases that had to wait.
enum class release_thread {
  background, ///< a thread of the reaper, started on first need
  none,       ///< whoever calls `drain` or `wait_idle`, for programs that want no threads of others
};

class reaper {
public:
  explicit reaper(std::shared_ptr<event_pool> events, release_thread how = release_thread::background);
  reaper(const reaper&) = delete;
  reaper& operator=(const reaper&) = delete;
  /// Stops the thread; nothing is pending then, because every pending release keeps its context alive.
  ~reaper();

  void submit(pending_release release);
  /// Does what has passed; returns how many releases that were.
  std::size_t drain();
  /// Waits until the queue is empty, at most `timeout`; true when it is.
  bool wait_idle(std::chrono::milliseconds timeout);
  [[nodiscard]] std::size_t pending() const;

private:
  bool empty_queue(std::chrono::milliseconds timeout);

  struct shared;
  std::shared_ptr<shared> shared_;
  release_thread how_;
};

} // namespace saeta
