// Mutexes that a thread may hold for long: a wait for one can be interrupted (base/interrupt.hpp).

#pragma once

#include "saeta/base/error.hpp"
#include "saeta/base/interruptible_wait.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace saeta {

/// A mutex for one thread at a time, such as the one of a transfer of gigabytes.
///
/// Failure   error busy if the thread already holds it: a hook called in the middle of a transfer would
///           deadlock.
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

// A shared mutex, such as the one of the transfers of a context.
//
// What      A thread holds it alone, or several threads share it. A thread that waits to hold it alone keeps
//           others from coming in, so that sharing threads that follow each other can't shut it out.
// Failure   error busy if the thread already holds it, or waits to hold it alone: a hook called in the middle
//           of a transfer would deadlock.
class interruptible_shared_mutex {
public:
  class guard {
  public:
    explicit guard(interruptible_shared_mutex& held) noexcept : held_(held) {}
    guard(const guard&) = delete;
    guard& operator=(const guard&) = delete;
    ~guard() { held_.unlock(); }

  private:
    interruptible_shared_mutex& held_;
  };

  /// Holds the mutex alone.
  /// @param what  names the caller's operation, for the message.
  /// @throws error busy, or what the interrupt hook throws; the lock is not taken then.
  [[nodiscard]] guard lock(const char* what) {
    std::unique_lock lock(mutex_);
    enter(lock, what);
    alone_ = std::this_thread::get_id();
    try {
      wait(lock, [this] { return sharing_.empty(); });
    } catch (...) {
      alone_ = {};
      changed_.notify_all();
      throw;
    }
    return guard(*this);
  }
  /// Holds the mutex together with others that share it. Parameter and failures are those of `lock`.
  [[nodiscard]] guard lock_shared(const char* what) {
    std::unique_lock lock(mutex_);
    enter(lock, what);
    sharing_.push_back(std::this_thread::get_id());
    return guard(*this);
  }

private:
  void enter(std::unique_lock<std::mutex>& lock, const char* what) {
    const std::thread::id me = std::this_thread::get_id();
    if (alone_ == me || std::ranges::find(sharing_, me) != sharing_.end()) {
      throw error(errc::busy,
                  std::string(what) + " can't start inside of another one, from a hook of this thread");
    }
    wait(lock, [this] { return alone_ == std::thread::id(); });
  }
  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, Done done) {
    wait_interruptibly(changed_, lock, std::chrono::steady_clock::time_point::max(), done);
  }
  void unlock() noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (alone_ == std::this_thread::get_id()) {
        alone_ = {};
      } else {
        std::erase(sharing_, std::this_thread::get_id());
      }
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread::id> sharing_;
  std::thread::id alone_; ///< the thread that holds it alone, or is the next to do so
};

} // namespace saeta
