#include "saeta/order/reaper.hpp"

#include "saeta/base/error.hpp"
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
  everything_source everything;
  mutable std::mutex mutex;
  std::condition_variable changed; ///< something was submitted or done
  std::deque<pending_release> queue;
  std::size_t running = 0;
  std::uint64_t submitted = 0;
  std::uint64_t done = 0;
  bool stop = false;
  std::thread thread;

  bool resolve(requirement& after) const;
  [[nodiscard]] bool passed(pending_release& release) const;
  std::size_t run_passed();
  [[nodiscard]] bool held_up() const;
  void loop();
};

namespace {

/// How long somebody sleeps between two questions: short at first, because most work is.
class poll_interval {
public:
  using duration = std::chrono::microseconds;
  void reset() noexcept { next_ = shortest; }
  [[nodiscard]] duration next() noexcept { return std::exchange(next_, std::min(next_ * 2, longest)); }

private:
  static constexpr duration shortest{20};
  static constexpr duration longest{1000};
  duration next_ = shortest;
};

} // namespace

bool reaper::shared::resolve(requirement& after) const {
  if (!after.unknown) {
    return true;
  }
  const std::optional<point_set> all = everything();
  if (!all) {
    return false;
  }
  after.points.add(all->all());
  after.unknown = false;
  return true;
}

bool reaper::shared::passed(pending_release& release) const {
  const auto failed = [&](const char* what) {
    if (!std::exchange(release.reported, true)) {
      report_current_exception(what);
    }
  };
  try {
    return resolve(release.after) && drop_passed(release.after.points);
  } catch (const error& failure) {
    if (failure.code() == errc::device_lost) {
      failed("reaper: the device is lost and runs nothing any more, so its releases are done");
      return true;
    }
    failed("reaper: a release is tried again");
  } catch (...) {
    failed("reaper: a release is tried again");
  }
  return false;
}

std::size_t reaper::shared::run_passed() {
  std::vector<pending_release> ready;
  {
    const std::lock_guard lock(mutex);
    ready.reserve(queue.size());
    const auto kept = std::stable_partition(queue.begin(), queue.end(),
                                            [&](pending_release& release) { return !passed(release); });
    std::move(kept, queue.end(), std::back_inserter(ready));
    queue.erase(kept, queue.end());
    running += ready.size();
  }
  std::size_t count = 0;
  for (pending_release& release : ready) {
    const bool finished = release.action();
    if (finished) {
      release.action = nullptr; // may end the context
      ++count;
    }
    const std::lock_guard lock(mutex);
    --running;
    if (finished) {
      ++done;
    } else {
      queue.push_back(std::move(release));
    }
    changed.notify_all();
  }
  return count;
}

/// Nothing is pending but what an active capture holds up. With the lock.
bool reaper::shared::held_up() const {
  return running == 0 && std::all_of(queue.begin(), queue.end(),
                                     [](const pending_release& release) { return release.after.unknown; });
}

void reaper::shared::loop() {
  poll_interval interval;
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return stop || !queue.empty(); });
    if (stop) {
      return;
    }
    lock.unlock();
    const bool progress = run_passed() != 0;
    lock.lock();
    if (progress || std::exchange(seen, submitted) != submitted) {
      interval.reset();
    }
    changed.wait_for(lock, interval.next(), [&] { return stop || seen != submitted; });
  }
}

reaper::reaper(everything_source everything, release_thread how)
    : shared_(std::make_shared<shared>()), how_(how) {
  shared_->everything = std::move(everything);
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

bool reaper::resolve(requirement& after) { return shared_->resolve(after); }

void reaper::submit(pending_release release) {
  if (shared_->passed(release) && release.action()) {
    return;
  }
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->queue.push_back(std::move(release));
    ++shared_->submitted;
    if (how_ == release_thread::background && !shared_->thread.joinable()) {
      shared_->thread = std::thread([state = shared_] { state->loop(); });
    }
  }
  shared_->changed.notify_all();
}

std::size_t reaper::drain() { return shared_->run_passed(); }

bool reaper::wait_for_one(clock::time_point deadline) {
  poll_interval interval;
  std::unique_lock lock(shared_->mutex);
  const std::uint64_t before = shared_->done;
  while (shared_->done == before && !shared_->held_up() && clock::now() < deadline) {
    if (how_ == release_thread::none) {
      lock.unlock();
      const bool progress = shared_->run_passed() != 0;
      lock.lock();
      if (progress) {
        return true;
      }
    }
    shared_->changed.wait_until(lock, std::min(deadline, clock::now() + interval.next()),
                                [&] { return shared_->done != before; });
  }
  return shared_->done != before;
}

bool reaper::can_wait() const {
  const std::lock_guard lock(shared_->mutex);
  return !shared_->held_up();
}

bool reaper::wait_idle(std::chrono::milliseconds timeout) {
  const auto deadline = clock::now() + timeout;
  drain();
  while (pending() != 0) {
    if (!wait_for_one(deadline)) {
      return pending() == 0;
    }
  }
  return true;
}

std::size_t reaper::pending() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->queue.size() + shared_->running;
}

std::vector<std::pair<std::string, std::uint64_t>> reaper::pending_bytes() const {
  const std::lock_guard lock(shared_->mutex);
  std::vector<std::pair<std::string, std::uint64_t>> found;
  found.reserve(shared_->queue.size());
  for (const pending_release& release : shared_->queue) {
    found.emplace_back(release.label, release.bytes);
  }
  return found;
}

} // namespace saeta
