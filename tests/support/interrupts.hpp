// Installs an interrupt hook (saeta/base/interrupt.hpp), or a clock for waits, until the end of a scope.
#pragma once

#include "saeta/base/interruptible_wait.hpp"

#include <atomic>
#include <functional>

namespace saeta::support {

/// Installs `ask` as the interrupt hook. Only one object at a time; no wait may outlive it.
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

/// Replaces the clock of waits by one that advances only by `move_to` and `move_by`. Waits check it only if
/// an interrupt hook is installed. Only one object at a time.
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
