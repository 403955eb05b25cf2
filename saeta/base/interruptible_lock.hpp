// A mutex that a thread may hold for long, such as the one of a transfer of gigabytes (base/interrupt.hpp).
//
// Failure   error busy if the thread already holds it: a hook called in the middle of a transfer would
//           deadlock.
#pragma once

#include "saeta/base/error.hpp"
#include "saeta/base/interruptible_wait.hpp"

#include <atomic>
#include <mutex>
#include <string>
#include <thread>

namespace saeta {

class interruptible_mutex {
public:
  class guard {
  public:
    explicit guard(interruptible_mutex& held) noexcept : held_(held) {}
    guard(const guard&) = delete;
    guard& operator=(const guard&) = delete;
    ~guard() {
      held_.holder_.store({}, std::memory_order_relaxed);
      held_.mutex_.unlock();
    }

  private:
    interruptible_mutex& held_;
  };

  /// @param what  names the caller's operation, for the message.
  /// @throws error busy, or what the interrupt hook throws; the lock is not taken then.
  [[nodiscard]] guard lock(const char* what) {
    if (holder_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
      throw error(errc::busy,
                  std::string(what) + " can't start inside of another one, from a hook of this thread");
    }
    bool locked = mutex_.try_lock();
    while (!locked) {
      check_interrupt();
      locked = mutex_.try_lock_for(wait_interval());
    }
    holder_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    return guard(*this);
  }

  /// Runs `action` with the lock held if the mutex is free; otherwise does nothing.
  template <class Action>
  void run_if_free(Action action) {
    if (mutex_.try_lock()) {
      const guard held(*this);
      action();
    }
  }

private:
  std::timed_mutex mutex_;
  std::atomic<std::thread::id> holder_;
};

} // namespace saeta
