#include "saeta/staging/worker_team.hpp"

#include "saeta/base/interrupt_pace.hpp"

#include <algorithm>
#include <utility>

namespace saeta {

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
  const std::size_t wanted = std::min(tasks, members_);
  {
    const std::lock_guard lock(mutex_);
    if (wanted > 1) {
      start();
    }
    work_ = &work;
    tasks_ = tasks;
    next_ = 0;
    failure_ = nullptr;
    if (wanted > 1) {
      may_sleep_ = may_sleep;
      open_ = true;
      ++round_;
    }
  }
  if (wanted == members_) {
    begun_.notify_all();
  } else {
    for (std::size_t i = 1; i < wanted; ++i) {
      begun_.notify_one();
    }
  }
  take_part(0);
  std::unique_lock lock(mutex_);
  open_ = false;
  left_.wait(lock, [&] { return busy_ == 0; });
  if (failure_) {
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

void worker_team::start() {
  while (threads_.size() + 1 < members_) {
    threads_.emplace_back([this, member = threads_.size() + 1] { loop(member); });
  }
}

void worker_team::loop(std::size_t member) {
  std::size_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      begun_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) {
        return;
      }
      seen = round_;
      if (!open_) {
        continue; // the others had done all tasks when it woke up
      }
      ++busy_;
    }
    take_part(member);
    std::shared_ptr<const condition> may_sleep;
    {
      const std::lock_guard lock(mutex_);
      may_sleep = may_sleep_;
      --busy_;
    }
    left_.notify_one();
    if (may_sleep) {
      stay_awake(seen, *may_sleep);
    }
  }
}

void worker_team::stay_awake(std::size_t round, const condition& may_sleep) const {
  using clock = std::chrono::steady_clock;
  const auto awake_until = clock::now() + most_awake;
  while (!stop_ && round_ == round && !may_sleep() && clock::now() < awake_until) {
    std::this_thread::yield();
  }
}

void worker_team::take_part(std::size_t member) noexcept {
  try {
    interrupt_pace pace;
    for (std::size_t task = next_++; task < tasks_; task = next_++) {
      (*work_)(member, task);
      if (member == 0) {
        pace.check_if_due();
      }
    }
  } catch (...) {
    next_ = tasks_;
    const std::lock_guard lock(mutex_);
    if (!failure_) {
      failure_ = std::current_exception();
    }
  }
}

} // namespace saeta
