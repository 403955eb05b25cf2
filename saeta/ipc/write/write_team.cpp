#include "saeta/ipc/write/write_team.hpp"

#include <algorithm>
#include <utility>

namespace saeta::ipc::detail {
namespace {

std::size_t machine_threads() { return std::max(2U, std::thread::hardware_concurrency()) - 1; }

constexpr auto never = std::chrono::steady_clock::time_point::max();

} // namespace

write_team::write_team(std::size_t threads) : most_threads_(threads == 0 ? machine_threads() : threads) {}

write_team::~write_team() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& each : threads_) {
    each.join();
  }
}

void write_team::start() noexcept {
  if (threads_.size() < most_threads_) {
    try {
      threads_.emplace_back([this] { loop(); });
    } catch (...) { // the other threads and the caller do the work
      most_threads_ = threads_.size();
    }
  }
}

void write_team::loop() {
  lock_type lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || may_take(); });
    if (stop_) {
      return;
    }
    take(lock);
  }
}

bool write_team::may_take() const noexcept {
  return !failure_ && (!runs_.empty() || (!queue_.empty() && at_queue_ < most_at_queue));
}

void write_team::take(lock_type& lock) {
  if (!runs_.empty()) {
    take_of(*runs_.front(), lock);
  } else {
    take_queued(lock);
  }
}

void write_team::take_of(shared_run& from, lock_type& lock) {
  const std::size_t task = from.next++;
  if (from.next == from.tasks) {
    runs_.remove(&from);
  }
  ++from.running;
  attempt(lock, [&] { (*from.work)(task); });
  --from.running;
  changed_.notify_all();
}

void write_team::take_queued(lock_type& lock) {
  queued_work taken = std::move(queue_.front());
  queue_.pop_front();
  ++at_queue_;
  attempt(lock, [&] {
    taken.work();
    taken.work = nullptr; // free its memory before its bytes are subtracted
  });
  --at_queue_;
  queued_bytes_ -= taken.bytes;
  changed_.notify_all();
}

template <class Action>
void write_team::attempt(lock_type& lock, const Action& action) noexcept {
  lock.unlock();
  std::exception_ptr thrown;
  try {
    action();
  } catch (...) {
    thrown = std::current_exception();
  }
  lock.lock();
  if (thrown && !failure_) {
    failure_ = thrown;
    changed_.notify_all();
  }
}

void write_team::throw_failure() const {
  if (failure_) {
    std::rethrow_exception(failure_);
  }
}

void write_team::run(std::size_t tasks, const std::function<void(std::size_t)>& work) {
  lock_type lock(mutex_);
  throw_failure();
  if (tasks == 0) {
    return;
  }
  shared_run mine{&work, tasks};
  runs_.push_front(&mine); // nested runs go first
  for (std::size_t more = 1; more < tasks && threads_.size() < most_threads_; ++more) {
    start();
  }
  changed_.notify_all();
  interrupt_pace pace;
  while (mine.next != tasks && !failure_) {
    take_of(mine, lock);
    attempt(lock, [&] { pace.check_if_due(); });
  }
  runs_.remove(&mine);
  try {
    wait_interruptibly(changed_, lock, never, [&] { return mine.running == 0; });
  } catch (...) {
    if (!failure_) {
      failure_ = std::current_exception();
    }
    changed_.wait(lock, [&] { return mine.running == 0; }); // running tasks refer to memory of the caller
  }
  throw_failure();
}

void write_team::queue(std::size_t bytes, std::function<void()> work) {
  lock_type lock(mutex_);
  throw_failure();
  queue_.push_back({bytes, std::move(work)});
  queued_bytes_ += bytes;
  if (threads_.size() < most_at_queue) {
    start();
  }
  changed_.notify_all();
  process_queue(lock, [&] { return queued_bytes_ <= most_queued; });
}

void write_team::wait_until(const std::function<bool()>& enough) {
  lock_type lock(mutex_);
  process_queue(lock, enough);
}

void write_team::finish() {
  lock_type lock(mutex_);
  process_queue(lock, [] { return false; });
}

void write_team::process_queue(lock_type& lock, const std::function<bool()>& enough) {
  attempt(lock, [&] { pace_.check_if_due(); });
  const auto done = [&] { return failure_ || (queue_.empty() && at_queue_ == 0) || enough(); };
  while (!done()) {
    if (may_take()) {
      take(lock);
      attempt(lock, [&] { pace_.check_if_due(); });
    } else {
      wait_interruptibly(changed_, lock, never, [&] { return done() || may_take(); });
    }
  }
  throw_failure();
}

} // namespace saeta::ipc::detail
