// An interrupt hook (saeta/base/interrupt.hpp) and a clock for waits, for the length of a test.
#pragma once

#include "saeta/base/interruptible_wait.hpp"

#include <atomic>
#include <functional>

namespace saeta::support {

/// Installs `ask` as the hook. One at a time; no wait outlives it.
class interrupts {
public:
  explicit interrupts(std::function<void()> ask) {
    current = std::move(ask);
    set_interrupt_hook([] { current(); });
  }
  interrupts(const interrupts&) = delete;
  interrupts& operator=(const interrupts&) = delete;
  ~interrupts() { set_interrupt_hook(nullptr); }

private:
  inline static std::function<void()> current;
};

/// A clock that stands still until it is moved, which a wait notices where there is a hook. One at a time.
class stopped_clock {
public:
  using time_point = std::chrono::steady_clock::time_point;

  stopped_clock() {
    move_to(std::chrono::steady_clock::now());
    set_wait_clock(&now);
  }
  stopped_clock(const stopped_clock&) = delete;
  stopped_clock& operator=(const stopped_clock&) = delete;
  ~stopped_clock() { set_wait_clock(nullptr); }

  static time_point now() { return time_point(time_point::duration(ticks)); }
  static void move_to(time_point when) { ticks = when.time_since_epoch().count(); }
  static void move_by(time_point::duration by) { move_to(now() + by); }

private:
  inline static std::atomic<time_point::rep> ticks{0};
};

} // namespace saeta::support
