#include "saeta/executor/thread_pool.hpp"

#include "saeta/base/interrupt.hpp"

#include <algorithm>
#include <utility>

namespace saeta {
namespace {

/// The pool whose task the thread does now, and the thread's member number in it.
struct membership {
  const thread_pool* pool = nullptr;
  std::size_t member = 0;
};
thread_local membership current;

} // namespace

/// The tasks of one call of `run`.
struct SAETA_LOCAL thread_pool::round {
  const task_function& work;
  std::size_t tasks;
  const std::shared_ptr<const condition>& may_sleep;
  std::size_t most_busy;                                              ///< threads beside the caller
  const std::atomic<bool>* cancelled = cancellation_scope::current(); ///< ends the waits of tasks as well
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

thread_pool::thread_pool(std::size_t members)
    : members_(members != 0 ? members : std::max(2U, std::thread::hardware_concurrency())) {}

thread_pool::~thread_pool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  begun_.notify_all();
  threads_.clear();
}

std::size_t thread_pool::members_of_call() const noexcept {
  return current.pool != this && background_thread::is_calling() ? members_ - members_ / 8 : members_;
}

void thread_pool::run(std::size_t tasks, const task_function& work,
                      const std::shared_ptr<const condition>& may_sleep) {
  const membership here = current;
  round mine{.work = work, .tasks = tasks, .may_sleep = may_sleep, .most_busy = members_of_call() - 1};
  lock_type lock(mutex_);
  throw_failure();
  const std::size_t own = here.pool == this || !led_ ? 1 : 0; // tasks that the caller begins itself
  const std::size_t helpers = std::min(std::max(tasks, own) - own, mine.most_busy);
  if (helpers != 0) {
    start(helpers);
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
  if (here.pool == this) {
    lock.unlock();
    take_part(here.member, mine, true);
    lock.lock();
  } else {
    lead(lock, mine);
  }
  std::erase(rounds_, &mine);
  left_.wait(lock, [&] { return mine.busy == 0; });
  if (mine.failure) {
    std::rethrow_exception(mine.failure);
  }
}

void thread_pool::lead(lock_type& lock, round& mine) {
  try {
    wait_interruptibly(left_, lock, [&] { return !led_ || (!mine.is_open() && mine.busy == 0); });
  } catch (...) {
    return mine.fail();
  }
  if (led_) {
    return;
  }
  led_ = true;
  lock.unlock();
  take_part(0, mine, true);
  lock.lock();
  led_ = false;
  left_.notify_all();
}

void thread_pool::start(std::size_t idle) {
  while (threads_.size() < std::min(members_ - 1, busy_ + idle)) {
    background_thread& added = threads_.emplace_back("saeta-pool");
    if (!added.start([this, member = threads_.size()] { loop(member); })) {
      threads_.pop_back();
      return;
    }
  }
}

void thread_pool::loop(std::size_t member) {
  lock_type lock(mutex_);
  for (;;) {
    round* joined = nullptr;
    begun_.wait(lock, [&] { return stop_ || (joined = find_open()) != nullptr || may_take_queued(); });
    if (stop_) {
      return;
    }
    ++busy_;
    if (joined == nullptr) {
      take_queued(lock);
      --busy_;
      continue;
    }
    ++joined->busy;
    lock.unlock();
    {
      const cancellation_scope ends_with(joined->cancelled);
      take_part(member, *joined, false);
    }
    lock.lock();
    --busy_;
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

thread_pool::round* thread_pool::find_open() const noexcept {
  const auto match = std::ranges::find_if(
      rounds_, [](const round* round) { return round->is_open() && round->busy < round->most_busy; });
  return match == rounds_.end() ? nullptr : *match;
}

void thread_pool::stay_awake(std::size_t rounds, const condition& may_sleep) const {
  using clock = std::chrono::steady_clock;
  const auto awake_until = clock::now() + most_awake;
  while (!stop_ && rounds_begun_ == rounds && !may_sleep() && clock::now() < awake_until) {
    std::this_thread::yield();
  }
}

void thread_pool::take_part(std::size_t member, round& in, bool is_caller) noexcept {
  const membership before = std::exchange(current, {this, member});
  try {
    interrupt_pace pace;
    const std::size_t rounds = rounds_begun_;
    for (std::size_t task = in.next++; task < in.tasks; task = in.next++) {
      in.work(member, task);
      if (member == 0) {
        pace.check_if_due();
      } else if (!is_caller && rounds_begun_ != rounds) {
        break; // `loop` finds out which round has the fewest tasks now
      }
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    in.fail();
  }
  current = before;
}

bool thread_pool::may_take_queued() const noexcept {
  return !failure_ && !queue_.empty() && at_queue_ < most_at_queue;
}

void thread_pool::take_queued(lock_type& lock) {
  queued_work taken = std::move(queue_.front());
  queue_.pop_front();
  ++at_queue_;
  lock.unlock();
  std::exception_ptr failure;
  try {
    taken.work();
  } catch (...) {
    failure = std::current_exception();
  }
  taken.work = nullptr; // frees the memory of the work before the bytes are subtracted
  lock.lock();
  --at_queue_;
  queued_bytes_ -= taken.bytes;
  if (!failure_) {
    failure_ = failure;
  }
  left_.notify_all();
  begun_.notify_one(); // a place at the queue is free
}

void thread_pool::queue(std::size_t bytes, std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    throw_failure();
    queue_.push_back({bytes, std::move(work)});
    queued_bytes_ += bytes;
    start(std::min(queue_.size(), most_at_queue - at_queue_));
  }
  begun_.notify_one();
  wait_until([&] { return queued_bytes_ <= most_queued; });
}

void thread_pool::wait_until(const condition& enough) {
  const auto done = [&] { return failure_ || (queue_.empty() && at_queue_ == 0) || enough(); };
  for (;;) {
    pace_.check_if_due();
    lock_type lock(mutex_);
    if (done()) {
      return throw_failure();
    }
    if (may_take_queued()) {
      take_queued(lock);
    } else {
      wait_interruptibly(left_, lock, [&] { return done() || may_take_queued(); });
    }
  }
}

void thread_pool::throw_failure() const {
  if (failure_) {
    std::rethrow_exception(failure_);
  }
}

} // namespace saeta
