// A mutex that threads may hold for long, such as the one of the transfers of a context (base/interrupt.hpp).
//
// @code
// interruptible_mutex transfers;
// {
//   const interruptible_mutex::guard alone = transfers.lock("an upload"); // Ctrl-C ends this wait
// }
// const interruptible_mutex::guard shared = transfers.lock_shared("a download"); // with other downloads
// @endcode
//
// What      A thread holds it alone, or several threads share it. A thread that waits to hold it alone keeps
//           others from coming in, so that sharing threads that follow each other can't shut it out.
// Failure   error busy if the thread already holds it, or waits to hold it alone: a hook called in the middle
//           of a transfer would deadlock.
#pragma once

#include "saeta/base/error.hpp"
#include "saeta/base/export.hpp"
#include "saeta/base/interruptible_wait.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace SAETA_EXPORT saeta {

class interruptible_mutex {
public:
  class guard {
  public:
    explicit guard(interruptible_mutex& held) noexcept : held_(held) {}
    guard(const guard&) = delete;
    guard& operator=(const guard&) = delete;
    ~guard() { held_.unlock(); }

  private:
    interruptible_mutex& held_;
  };

  /// Holds the mutex alone.
  /// @param what  names the caller's operation, for the message.
  /// @throws error busy, or what the interrupt hook throws; the lock is not taken then.
  [[nodiscard]] guard lock(const char* what) {
    std::unique_lock lock(mutex_);
    enter(lock, what);
    alone_ = std::this_thread::get_id();
    try {
      wait_interruptibly(changed_, lock, [this] { return sharing_.empty(); });
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
  /// Runs `action` with the mutex held alone if it is free; otherwise does nothing.
  template <class Action>
  void run_if_free(Action action) {
    std::unique_lock lock(mutex_);
    if (alone_ == std::thread::id() && sharing_.empty()) {
      alone_ = std::this_thread::get_id();
      lock.unlock();
      const guard held(*this);
      action();
    }
  }

private:
  void enter(std::unique_lock<std::mutex>& lock, const char* what) {
    const std::thread::id me = std::this_thread::get_id();
    if (alone_ == me || std::ranges::find(sharing_, me) != sharing_.end()) {
      throw error(errc::busy,
                  std::string(what) + " can't start inside of another one, from a hook of this thread");
    }
    wait_interruptibly(changed_, lock, [this] { return alone_ == std::thread::id(); });
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
