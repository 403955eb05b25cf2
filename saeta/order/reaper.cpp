#include "saeta/order/reaper.hpp"

#include "saeta/base/report.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace saeta {

// The thread keeps this alive by itself: the last action may destroy the context, and with it the reaper, while the
// thread still runs.
struct reaper::shared {
  std::shared_ptr<event_pool> events;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<pending_release> queue;
  std::size_t running = 0;
  bool stop = false;
  std::thread thread;

  std::size_t run_passed();
  void loop();
};

namespace {

/// How soon a release is tried again whose fence was refused during a graph capture.
constexpr std::chrono::milliseconds capture_retry{1};
/// How often a device may fail to say whether work has finished before it is taken for dead.
constexpr int most_failures = 3;

bool passed(pending_release& release, event_pool& events) {
  if (release.needs_context_fence) {
    const std::optional<fence> all = events.record_context();
    if (!all) {
      return false;
    }
    release.after.push_back(*all);
    release.needs_context_fence = false;
  }
  std::erase_if(release.after, [](const fence& f) { return f.complete(); });
  return release.after.empty();
}

bool passed_or_failed(pending_release& release, event_pool& events) {
  try {
    return passed(release, events);
  } catch (...) {
    const bool give_up = ++release.failures >= most_failures;
    report_current_exception(give_up ? "reaper: a fence failed again, its release is done now"
                                     : "reaper: a fence failed, its release is kept");
    return give_up;
  }
}

} // namespace

std::size_t reaper::shared::run_passed() {
  std::vector<pending_release> ready;
  {
    const std::lock_guard lock(mutex);
    for (auto it = queue.begin(); it != queue.end();) {
      if (passed_or_failed(*it, *events)) {
        ready.push_back(std::move(*it));
        it = queue.erase(it);
      } else {
        ++it;
      }
    }
    running += ready.size();
  }
  for (pending_release& release : ready) {
    release.action();
    release.action = nullptr; // may end the context
  }
  if (!ready.empty()) {
    const std::lock_guard lock(mutex);
    running -= ready.size();
    changed.notify_all();
  }
  return ready.size();
}

void reaper::shared::loop() {
  for (;;) {
    fence oldest;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return stop || !queue.empty(); });
      if (stop) {
        return;
      }
      if (!queue.front().after.empty()) {
        oldest = queue.front().after.front();
      } else { // only a refused fence is in the way
        changed.wait_for(lock, capture_retry, [&] { return stop; });
      }
    }
    try {
      oldest.synchronize();
    } catch (...) {
      report_current_exception("reaper: waiting for a fence");
    }
    oldest = {};
    run_passed();
  }
}

reaper::reaper(std::shared_ptr<event_pool> events, release_thread how)
    : shared_(std::make_shared<shared>()), how_(how) {
  shared_->events = std::move(events);
}

reaper::~reaper() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->changed.notify_all();
  if (!shared_->thread.joinable()) {
    return;
  }
  if (shared_->thread.get_id() == std::this_thread::get_id()) {
    shared_->thread.detach();
  } else {
    shared_->thread.join();
  }
}

void reaper::submit(pending_release release) {
  if (passed_or_failed(release, *shared_->events)) {
    release.action();
    return;
  }
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->queue.push_back(std::move(release));
    if (how_ == release_thread::background && !shared_->thread.joinable()) {
      shared_->thread = std::thread([state = shared_] { state->loop(); });
    }
  }
  shared_->changed.notify_all();
}

std::size_t reaper::drain() { return shared_->run_passed(); }

bool reaper::wait_idle(std::chrono::milliseconds timeout) {
  if (how_ == release_thread::none) {
    return empty_queue(timeout);
  }
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, timeout,
                                   [&] { return shared_->queue.empty() && shared_->running == 0; });
}

bool reaper::empty_queue(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  do {
    if (shared_->run_passed() != 0) {
      continue;
    }
    fence oldest;
    {
      const std::lock_guard lock(shared_->mutex);
      if (shared_->queue.empty()) {
        return shared_->running == 0;
      }
      for (const pending_release& release : shared_->queue) {
        if (!release.after.empty()) {
          oldest = release.after.front();
          break;
        }
      }
    }
    if (oldest.empty()) {
      return false; // only refused fences are in the way, and this thread is not the one to wait for a capture
    }
    try {
      oldest.synchronize();
    } catch (...) {
      report_current_exception("reaper: waiting for a fence");
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return pending() == 0;
}

std::size_t reaper::pending() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->queue.size() + shared_->running;
}

} // namespace saeta
