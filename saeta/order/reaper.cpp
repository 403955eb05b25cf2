#include "saeta/order/reaper.hpp"

#include "saeta/base/error.hpp"
#include "saeta/base/report.hpp"
#include "saeta/executor/background_thread.hpp"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>

namespace saeta {
namespace {

/// A release in the queue. Only the thread that queries a release changes it. Its label and bytes never
/// change.
struct queued_release {
  explicit queued_release(pending_release submitted)
      : release(std::move(submitted)), held_up(release.after.unknown) {}

  pending_release release;
  /// Whether a capture held up the release at the last query. Guarded by the mutex of the queue.
  bool held_up;
};
using release_queue = std::list<queued_release>;

} // namespace

// The thread shares this: the last action may destroy the context and the reaper while the thread runs.
struct SAETA_LOCAL reaper::shared {
  everything_source everything;
  std::mutex asking; ///< held while the device is queried about the queue; taken before `mutex`
  mutable std::mutex mutex;
  std::condition_variable changed; ///< something was submitted or done
  release_queue queue;             ///< submitters append; only the holder of `asking` removes
  std::size_t running = 0;
  std::uint64_t submitted = 0;
  std::uint64_t done = 0;
  bool stop = false;
  background_thread thread{"saeta-reaper"};

  bool resolve(requirement& after) const;
  [[nodiscard]] bool has_passed(pending_release& release) const;
  [[nodiscard]] release_queue take_passed();
  std::size_t run_passed();
  bool try_run_passed() noexcept;
  [[nodiscard]] bool is_held_up() const;
  void loop();
};

namespace {

/// How long to sleep between two queries. It is short at first, because most work is short.
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

bool reaper::shared::has_passed(pending_release& release) const {
  const auto failed = [&](const char* part) {
    if (!std::exchange(release.reported, true)) {
      report_current_exception(part);
    }
  };
  try {
    return resolve(release.after) && drop_passed(release.after.points);
  } catch (const error& failure) {
    if (failure.code() == errc::device_lost) {
      failed("reaper: the device is lost and runs no more work, so its releases are done now");
      return true;
    }
    failed("reaper: a release is tried again");
  } catch (...) {
    failed("reaper: a release is tried again");
  }
  return false;
}

/// Queries all releases that are queued now. The device may be slow, so `mutex` is not held meanwhile: other
/// threads can submit and wait.
release_queue reaper::shared::take_passed() {
  struct question {
    release_queue::iterator of;
    bool passed = false;
  };
  std::vector<question> questions;
  release_queue ready;
  const std::lock_guard alone(asking);
  {
    const std::lock_guard lock(mutex);
    questions.reserve(queue.size());
    for (auto release = queue.begin(); release != queue.end(); ++release) {
      questions.push_back({release});
    }
  }
  for (question& question : questions) {
    question.passed = has_passed(question.of->release);
  }
  const std::lock_guard lock(mutex);
  for (const question& question : questions) {
    question.of->held_up = question.of->release.after.unknown;
    if (question.passed) {
      ready.splice(ready.end(), queue, question.of);
    }
  }
  running += ready.size();
  return ready;
}

std::size_t reaper::shared::run_passed() {
  release_queue ready = take_passed();
  std::size_t count = 0;
  while (!ready.empty()) {
    pending_release& release = ready.front().release;
    const bool finished = release.action();
    if (finished) {
      release.action = nullptr; // may destroy the context
      ++count;
    }
    const std::lock_guard lock(mutex);
    --running;
    if (finished) {
      ++done;
      ready.pop_front();
    } else {
      queue.splice(queue.end(), ready, ready.begin());
    }
    changed.notify_all();
  }
  return count;
}

/// The step of the thread. A lack of memory does not end the thread. Returns true if something was released.
bool reaper::shared::try_run_passed() noexcept {
  try {
    return run_passed() != 0;
  } catch (...) {
    report_current_exception("reaper: the releases are queried again");
    return false;
  }
}

/// True if only releases that an active capture holds up are pending. The caller holds the lock.
bool reaper::shared::is_held_up() const {
  return running == 0 && std::all_of(queue.begin(), queue.end(),
                                     [](const queued_release& release) { return release.held_up; });
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
    const bool progress = try_run_passed();
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
  shared_->thread.join();
}

bool reaper::resolve(requirement& after) { return shared_->resolve(after); }

void reaper::submit(pending_release release) {
  if (shared_->has_passed(release) && release.action()) {
    return;
  }
  release_queue added;
  added.emplace_back(std::move(release));
  bool watched = true;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->queue.splice(shared_->queue.end(), added);
    ++shared_->submitted;
    if (how_ == release_thread::background && !shared_->thread.joinable()) {
      watched = shared_->thread.start([state = shared_] { state->loop(); });
    }
  }
  shared_->changed.notify_all();
  if (!watched) {
    report("reaper", "no thread can be started, so a release waits until memory is requested");
  }
}

std::size_t reaper::drain() { return shared_->run_passed(); }

std::uint64_t reaper::done() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->done;
}

bool reaper::wait_for_one(std::uint64_t before, clock::time_point deadline) {
  poll_interval interval;
  std::unique_lock lock(shared_->mutex);
  while (shared_->done == before && !shared_->is_held_up() && clock::now() < deadline) {
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
  return !shared_->is_held_up();
}

bool reaper::wait_idle(std::chrono::milliseconds timeout) {
  const auto deadline = clock::now() + timeout;
  drain();
  for (;;) {
    const std::uint64_t before = done();
    if (pending() == 0) {
      return true;
    }
    if (!wait_for_one(before, deadline)) {
      return pending() == 0;
    }
  }
}

std::size_t reaper::pending() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->queue.size() + shared_->running;
}

std::vector<std::pair<std::string, std::uint64_t>> reaper::pending_bytes() const {
  const std::lock_guard lock(shared_->mutex);
  std::vector<std::pair<std::string, std::uint64_t>> names;
  names.reserve(shared_->queue.size());
  for (const queued_release& release : shared_->queue) {
    names.emplace_back(release.release.label, release.release.bytes);
  }
  return names;
}

} // namespace saeta
