#include "saeta/staging/worker_team.hpp"

#include "saeta/base/interruptible_wait.hpp"

#include <algorithm>
#include <exception>

namespace saeta {

/// The tasks of one call of `run`.
struct worker_team::round {
  const task_function& work;
  std::size_t tasks;
  const std::shared_ptr<const condition>& may_sleep;
  std::atomic<std::size_t> next = 0;
  std::size_t busy = 0; ///< threads that take part, beside the caller; changed under the mutex
  std::exception_ptr failure = nullptr;

  [[nodiscard]] bool is_open() const noexcept { return next < tasks; }
  /// Keeps the current exception if it is the first, and begins no further task. The caller holds the mutex.
  void fail() noexcept {
    next = tasks;
    if (!failure) {
      failure = std::current_exception();
    }
  }
};

worker_team::~worker_team() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  begun_.notify_all();
  for (std::thread& t : threads_) {
    t.join();
  }
}

void worker_team::run(std::size_t tasks, const task_function& work,
                      const std::shared_ptr<const condition>& may_sleep) {
  round mine{.work = work, .tasks = tasks, .may_sleep = may_sleep};
  std::unique_lock lock(mutex_);
  const std::size_t own = led_ ? 0 : 1; // tasks that the caller surely begins
  const std::size_t helpers = std::min(std::max(tasks, own) - own, members_ - 1);
  if (helpers != 0) {
    start();
    rounds_.insert(std::ranges::upper_bound(rounds_, tasks, {}, &round::tasks), &mine);
    ++rounds_begun_;
    lock.unlock();
    if (helpers == members_ - 1) {
      begun_.notify_all();
    } else {
      for (std::size_t i = 0; i < helpers; ++i) {
        begun_.notify_one();
      }
    }
    lock.lock();
  }
  lead(lock, mine);
  std::erase(rounds_, &mine);
  left_.wait(lock, [&] { return mine.busy == 0; });
  if (mine.failure) {
    std::rethrow_exception(mine.failure);
  }
}

void worker_team::lead(std::unique_lock<std::mutex>& lock, round& mine) {
  try {
    wait_interruptibly(left_, lock, std::chrono::steady_clock::time_point::max(),
                       [&] { return !led_ || (!mine.is_open() && mine.busy == 0); });
  } catch (...) {
    return mine.fail();
  }
  if (led_) {
    return;
  }
  led_ = true;
  lock.unlock();
  take_part(0, mine);
  lock.lock();
  led_ = false;
  left_.notify_all();
}

void worker_team::start() {
  while (threads_.size() + 1 < members_) {
    threads_.emplace_back([this, member = threads_.size() + 1] { loop(member); });
  }
}

void worker_team::loop(std::size_t member) {
  std::unique_lock lock(mutex_);
  for (;;) {
    round* joined = nullptr;
    begun_.wait(lock, [&] { return stop_ || (joined = find_open()) != nullptr; });
    if (stop_) {
      return;
    }
    ++joined->busy;
    lock.unlock();
    take_part(member, *joined);
    lock.lock();
    const std::shared_ptr<const condition> may_sleep = joined->may_sleep;
    if (--joined->busy == 0) {
      left_.notify_all(); // the round may be gone when the lock is released
    }
    if (may_sleep && find_open() == nullptr) {
      const std::size_t rounds = rounds_begun_;
      lock.unlock();
      stay_awake(rounds, *may_sleep);
      lock.lock();
    }
  }
}

worker_team::round* worker_team::find_open() const noexcept {
  const auto found = std::ranges::find_if(rounds_, &round::is_open);
  return found == rounds_.end() ? nullptr : *found;
}

void worker_team::stay_awake(std::size_t rounds, const condition& may_sleep) const {
  using clock = std::chrono::steady_clock;
  const auto awake_until = clock::now() + most_awake;
  while (!stop_ && rounds_begun_ == rounds && !may_sleep() && clock::now() < awake_until) {
    std::this_thread::yield();
  }
}

void worker_team::take_part(std::size_t member, round& in) noexcept {
  try {
    interrupt_pace pace;
    const std::size_t rounds = rounds_begun_;
    for (std::size_t task = in.next++; task < in.tasks; task = in.next++) {
      in.work(member, task);
      if (member == 0) {
        pace.check_if_due();
      } else if (rounds_begun_ != rounds) {
        return; // `loop` finds out which round has the fewest tasks now
      }
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    in.fail();
  }
}

} // namespace saeta
